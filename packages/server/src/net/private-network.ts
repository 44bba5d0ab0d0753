/**
 * Which addresses a server may call for others. A client that may subscribe a webhook or write a journey chooses where the
 * server knocks; without a guard that reaches everything the server's own network does: databases, the metadata service
 * of a cloud, this server itself.
 *
 * Only what is plainly public passes. Two fences stand one behind the other, because each table has had gaps: the ranges
 * of ipaddr.js, of which only `unicast` passes (its table does not know the IPv4-compatible addresses `::127.0.0.1`), and
 * for IPv6 the one block from which the world's addresses are given out, 2000::/3.
 *
 * The metadata services of clouds hand out credentials to every caller on the machine. They are never called, not even
 * where private networks may be: no webhook and no journey needs them.
 */
import { isIPv4, isIPv6 } from 'node:net'
import ipaddr from 'ipaddr.js'

/** `address` as DNS gives it, or as it stands in a URL without brackets. What cannot be read is not public. */
export function isPublicAddress(address: string): boolean {
  if (isMetadataAddress(address)) return false
  if (isIPv4(address)) return isPublicV4(ipaddr.IPv4.parse(address))
  // A zone (fe80::1%eth0) names an interface of this machine.
  if (!isIPv6(address) || address.includes('%')) return false
  return isPublicV6(ipaddr.IPv6.parse(inGroups(address)))
}

/** `address` as above. What cannot be read is not one. */
export function isMetadataAddress(address: string): boolean {
  if (isIPv4(address)) return isMetadataV4(ipaddr.IPv4.parse(address))
  const [plain = ''] = address.split('%')
  if (!isIPv6(plain)) return false
  const parsed = ipaddr.IPv6.parse(inGroups(plain))
  return METADATA_V6.some((range) => parsed.match(range)) || carriedV4(parsed).some(isMetadataV4)
}

/** Most clouds use an address of the link-local network, and the next cloud will: so all of it. */
const METADATA_V4 = [
  '169.254.0.0/16',
  '168.63.129.16/32', // Azure
  '100.100.100.200/32', // Alibaba Cloud
  '192.0.0.192/32', // Oracle Cloud
].map((range) => ipaddr.IPv4.parseCIDR(range))

const METADATA_V6 = [
  'fe80::/10', // OpenStack: fe80::a9fe:a9fe
  'fd00:ec2::/32', // AWS: ::254, ::23
  'fd20:ce::254/128', // Google Cloud
  'fd00:c1::a9fe:a9fe/128', // Oracle Cloud
  'fd00:42::42/128', // Scaleway
  'fd00:a9fe:a9fe::1/128', // Akamai
  'fd00:100::100:200/128', // Alibaba Cloud
].map((range) => ipaddr.IPv6.parseCIDR(range))

const isMetadataV4 = (address: ipaddr.IPv4): boolean => METADATA_V4.some((range) => address.match(range))

/** The IPv4 addresses that an IPv6 one carries by its prefix; several where the prefix leaves open at which place. */
function carriedV4(address: ipaddr.IPv6): ipaddr.IPv4[] {
  const bytes = address.toByteArray()
  const at = (places: readonly number[]): ipaddr.IPv4 => new ipaddr.IPv4(places.map((place) => bytes[place] ?? 0))
  const carried = CARRIERS.filter(({ range }) => address.match(range)).flatMap(({ places }) => places.map(at))
  if (address.match(TEREDO)) carried.push(new ipaddr.IPv4(bytes.slice(12).map((byte) => byte ^ 0xff)))
  // ISATAP (RFC 5214 §6.1) has no prefix of its own: the second half says so.
  if ([0, 2].includes(bytes[8] ?? 1) && bytes[9] === 0 && bytes[10] === 0x5e && bytes[11] === 0xfe)
    carried.push(at(LAST))
  return carried
}

const LAST = [12, 13, 14, 15]
const TEREDO = ipaddr.IPv6.parseCIDR('2001::/32')
const CARRIERS = (
  [
    ['::/96', [LAST]], // IPv4-compatible
    ['::ffff:0:0/96', [LAST]], // IPv4-mapped
    ['::ffff:0:0:0/96', [LAST]], // IPv4-translated
    ['64:ff9b::/96', [LAST]], // NAT64
    // NAT64 with a prefix of /48, /56, /64 or /96 out of this (RFC 8215, RFC 6052 §2.2)
    ['64:ff9b:1::/48', [LAST, [9, 10, 11, 12], [7, 9, 10, 11], [6, 7, 9, 10]]],
    ['2002::/16', [[2, 3, 4, 5]]], // 6to4
    ['2001::/32', [[4, 5, 6, 7]]], // the server of Teredo; its client is inverted
  ] as const
).map(([range, places]) => ({ range: ipaddr.IPv6.parseCIDR(range), places }))

/** ipaddr.js reads `::8.8.8.8` as if it were `::ffff:8.8.8.8`; written in groups there is nothing to misread. */
const inGroups = (address: string): string => new URL(`http://[${address}]/`).hostname.slice(1, -1)

const isPublicV4 = (address: ipaddr.IPv4): boolean => address.range() === 'unicast'

/** The world's addresses; everything else is special, or not given out. */
const GLOBAL: [ipaddr.IPv6, number] = [ipaddr.IPv6.parse('2000::'), 3]
/** RFC 6052: what DNS64 answers on networks that have no IPv4, so the address inside is the one that counts. */
const NAT64: [ipaddr.IPv6, number] = [ipaddr.IPv6.parse('64:ff9b::'), 96]

function isPublicV6(address: ipaddr.IPv6): boolean {
  if (address.isIPv4MappedAddress()) return isPublicV4(address.toIPv4Address())
  if (address.match(NAT64)) return isPublicV4(new ipaddr.IPv4(address.toByteArray().slice(12)))
  // 6to4, Teredo and the like carry an IPv4 address too, but they are obsolete: they do not pass at all.
  return address.range() === 'unicast' && address.match(GLOBAL)
}
