import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { isMetadataAddress, isPublicAddress } from './private-network.ts'

/** A host as it stands in a URL, in whatever notation, and what becomes of it. */
const hostOf = (host: string): string => new URL(`http://${host}/`).hostname.replace(/^\[|\]$/g, '')

describe('addresses that may be called', () => {
  test.each([
    '1.1.1.1',
    '8.8.8.8',
    '93.184.216.34',
    '100.63.255.255',
    '100.128.0.0',
    '172.15.255.255',
    '172.32.0.0',
    '169.253.255.255',
    '192.0.1.1',
    '223.255.255.255',
    '2606:4700:4700::1111',
    '2a00:1450:4001:82a::200e',
    '::ffff:8.8.8.8',
    '64:ff9b::8.8.8.8',
  ])('%s passes', (address) => {
    expect(isPublicAddress(address)).toBe(true)
  })
})

describe('addresses that may not', () => {
  test.each([
    ['0.0.0.0', 'unspecified'],
    ['0.1.2.3', 'this network'],
    ['10.0.0.1', 'private'],
    ['10.255.255.255', 'private'],
    ['100.64.0.1', 'carrier-grade NAT'],
    ['100.127.255.255', 'carrier-grade NAT'],
    ['127.0.0.1', 'loopback'],
    ['127.255.255.254', 'loopback'],
    ['169.254.0.1', 'link-local'],
    ['169.254.169.254', 'cloud metadata'],
    ['168.63.129.16', 'Azure, a public address by its range'],
    ['100.100.100.200', 'Alibaba Cloud'],
    ['192.0.0.192', 'Oracle Cloud'],
    ['::ffff:168.63.129.16', 'Azure, IPv4-mapped'],
    ['64:ff9b::168.63.129.16', 'Azure behind NAT64'],
    ['64:ff9b:1::168.63.129.16', 'Azure behind NAT64 of a local prefix'],
    ['2002:a83f:8110::', 'Azure as 6to4'],
    ['172.16.0.1', 'private'],
    ['172.31.255.255', 'private'],
    ['192.0.0.8', 'IETF'],
    ['192.0.2.1', 'documentation'],
    ['192.88.99.1', '6to4 relays'],
    ['192.168.1.1', 'private'],
    ['198.18.0.1', 'benchmarks'],
    ['198.51.100.1', 'documentation'],
    ['203.0.113.1', 'documentation'],
    ['224.0.0.1', 'multicast'],
    ['239.255.255.255', 'multicast'],
    ['240.0.0.1', 'reserved'],
    ['255.255.255.255', 'broadcast'],
    ['::', 'unspecified'],
    ['::1', 'loopback'],
    ['::127.0.0.1', 'IPv4-compatible'],
    ['::a9fe:a9fe', 'IPv4-compatible metadata'],
    ['::8.8.8.8', 'IPv4-compatible, even of a public one'],
    ['::ffff:127.0.0.1', 'IPv4-mapped loopback'],
    ['::ffff:a9fe:a9fe', 'IPv4-mapped metadata'],
    ['::ffff:0:127.0.0.1', 'IPv4-translated'],
    ['64:ff9b::127.0.0.1', 'NAT64 of loopback'],
    ['64:ff9b::a9fe:a9fe', 'NAT64 of metadata'],
    ['64:ff9b:1::8.8.8.8', 'NAT64 of a local prefix'],
    ['100::1', 'discard'],
    ['2001::1', 'Teredo'],
    ['2001:db8::1', 'documentation'],
    ['2001:2::1', 'benchmarks'],
    ['2002:7f00:1::', '6to4 of loopback'],
    ['2002:808:808::', '6to4 of a public one'],
    ['3fff::1', 'documentation'],
    ['5f00::1', 'segment routing'],
    ['fc00::1', 'unique local'],
    ['fd00:ec2::254', 'cloud metadata'],
    ['fe80::1', 'link-local'],
    ['fe80::1%eth0', 'link-local with a zone'],
    ['fec0::1', 'site-local'],
    ['ff02::1', 'multicast'],
    ['4000::1', 'not given out'],
    ['e000::1', 'not given out'],
    ['', 'nothing'],
    ['example.com', 'a name'],
    ['2606:4700:4700::1111%1', 'a zone'],
  ])('%s (%s) is blocked', (address) => {
    expect(isPublicAddress(address)).toBe(false)
  })

  test.each([
    '127.1',
    '2130706433',
    '0x7f.0.0.1',
    '0x7f000001',
    '0177.0.0.1',
    '017700000001',
    '127.0.0.1.',
    '①②⑦.0.0.1',
    '[::ffff:127.0.0.1]',
    '[0:0:0:0:0:ffff:7f00:0001]',
    '0',
    '169.254.43518',
    '0xA9FEA9FE',
  ])('%s, an address in an odd notation, is blocked once a URL has read it', (host) => {
    expect(isPublicAddress(hostOf(host))).toBe(false)
  })
})

/** Published by the clouds themselves. */
const METADATA_V4: readonly (readonly [string, string])[] = [
  ['169.254.169.254', 'AWS, Google Cloud, Azure, Oracle, IBM, DigitalOcean, Hetzner, OpenStack'],
  ['169.254.170.2', 'AWS ECS'],
  ['169.254.170.23', 'AWS EKS'],
  ['169.254.42.42', 'Scaleway'],
  ['169.254.0.23', 'Tencent Cloud'],
  ['168.63.129.16', 'Azure'],
  ['100.100.100.200', 'Alibaba Cloud'],
  ['192.0.0.192', 'Oracle Cloud'],
]

describe('addresses of metadata services', () => {
  test.each<readonly [string, string]>([
    ...METADATA_V4,
    ['fd00:ec2::254', 'AWS'],
    ['fd00:ec2::23', 'AWS EKS'],
    ['fd20:ce::254', 'Google Cloud'],
    ['fd00:c1::a9fe:a9fe', 'Oracle Cloud'],
    ['fd00:42::42', 'Scaleway'],
    ['fd00:a9fe:a9fe::1', 'Akamai'],
    ['fd00:100::100:200', 'Alibaba Cloud'],
    ['fe80::a9fe:a9fe', 'OpenStack'],
    ['fe80::a9fe:a9fe%eth0', 'OpenStack with a zone'],
  ])('%s (%s) is one, and not public', (address) => {
    expect(isMetadataAddress(address)).toBe(true)
    expect(isPublicAddress(address)).toBe(false)
  })

  const hex = (address: string): readonly [string, string] => {
    const [a = 0, b = 0, c = 0, d = 0] = address.split('.').map(Number)
    return [((a << 8) | b).toString(16), ((c << 8) | d).toString(16)]
  }
  const inverted = (group: string): string => (0xffff ^ Number.parseInt(group, 16)).toString(16)
  const wrappers: Readonly<Record<string, (high: string, low: string) => string>> = {
    'IPv4-mapped': (high, low) => `::ffff:${high}:${low}`,
    'IPv4-compatible': (high, low) => `::${high}:${low}`,
    'IPv4-translated': (high, low) => `::ffff:0:${high}:${low}`,
    NAT64: (high, low) => `64:ff9b::${high}:${low}`,
    'NAT64 of a local /96': (high, low) => `64:ff9b:1:abcd::${high}:${low}`,
    'NAT64 of a local /48': (high, low) =>
      `64:ff9b:1:${high}:${low.padStart(4, '0').slice(0, 2)}:${low.padStart(4, '0').slice(2)}00::`,
    '6to4': (high, low) => `2002:${high}:${low}::1`,
    'the server of Teredo': (high, low) => `2001:0:${high}:${low}::1`,
    'the client of Teredo': (high, low) => `2001:0:102:304:0:ffff:${inverted(high)}:${inverted(low)}`,
    ISATAP: (high, low) => `2606:4700::5efe:${high}:${low}`,
  }

  test.each(Object.entries(wrappers))('each is found as %s as well', (_, wrap) => {
    for (const [address] of METADATA_V4) {
      const wrapped = wrap(...hex(address))
      expect(isMetadataAddress(wrapped), wrapped).toBe(true)
      expect(isPublicAddress(wrapped), wrapped).toBe(false)
    }
  })

  test.each([
    '127.0.0.1',
    '10.0.0.1',
    '192.168.1.1',
    '8.8.8.8',
    '::1',
    'fd12:3456::1',
    '2606:4700:4700::1111',
    '2606:4700:4700::a9fe:a9fe',
    'localhost',
    '',
  ])('%s is not one', (address) => {
    expect(isMetadataAddress(address)).toBe(false)
  })
})

describe('whatever the address', () => {
  const v4 = fc.tuple(fc.nat(255), fc.nat(255), fc.nat(255), fc.nat(255)).map((bytes) => bytes.join('.'))
  const groups = (count: number) =>
    fc
      .array(fc.nat(0xffff), { minLength: count, maxLength: count })
      .map((parts) => parts.map((part) => part.toString(16)))

  test('an IPv4 address inside an IPv6 one is never let through when it is blocked by itself', () => {
    fc.assert(
      fc.property(v4, fc.constantFrom('::ffff:', '64:ff9b::', '::', '::ffff:0:', '64:ff9b:1::'), (inner, prefix) => {
        if (!isPublicAddress(inner)) expect(isPublicAddress(prefix + inner)).toBe(false)
      }),
    )
  })

  test('private networks are blocked from their first to their last address', () => {
    const inside: Record<string, readonly [number, number]> = {
      '10.0.0.0': [0x0a000000, 8],
      '100.64.0.0': [0x64400000, 10],
      '127.0.0.0': [0x7f000000, 8],
      '169.254.0.0': [0xa9fe0000, 16],
      '172.16.0.0': [0xac100000, 12],
      '192.168.0.0': [0xc0a80000, 16],
      '224.0.0.0': [0xe0000000, 4],
    }
    const dotted = (value: number): string => [24, 16, 8, 0].map((shift) => (value >>> shift) & 255).join('.')
    fc.assert(
      fc.property(
        fc.constantFrom(...Object.values(inside)),
        fc.double({ min: 0, max: 1, noNaN: true }),
        ([base, bits], part) => {
          const size = 2 ** (32 - bits)
          expect(isPublicAddress(dotted(base + Math.min(size - 1, Math.floor(part * size))))).toBe(false)
        },
      ),
    )
  })

  test('nothing outside 2000::/3 passes, unless it holds a public IPv4 address', () => {
    fc.assert(
      fc.property(groups(8), (parts) => {
        const first = Number.parseInt(parts[0] ?? '0', 16)
        const address = parts.join(':')
        if (first >> 13 !== 1 && !address.startsWith('64:ff9b:0:0:0:0:')) expect(isPublicAddress(address)).toBe(false)
      }),
    )
  })

  test('how it is written makes no difference', () => {
    fc.assert(
      fc.property(groups(8), (parts) => {
        const long = parts.map((part) => part.padStart(4, '0')).join(':')
        expect(isPublicAddress(long.toUpperCase())).toBe(isPublicAddress(hostOf(`[${long}]`)))
      }),
    )
  })
})
