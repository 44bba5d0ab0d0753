/**
 * Which addresses a server may call for others. Whoever may subscribe a webhook or write a journey chooses where the
 * server knocks; without a guard that reaches everything the server's own network does: databases, the metadata service
 * of a cloud, this server itself.
 *
 * Only what is plainly public passes. Two fences stand one behind the other, because each table has had gaps: the ranges
 * of ipaddr.js, of which only `unicast` passes (its table does not know the IPv4-compatible addresses `::127.0.0.1`), and
 * for IPv6 the one block from which the world's addresses are given out, 2000::/3.
 */
import { isIPv4, isIPv6 } from 'node:net'
import ipaddr from 'ipaddr.js'

/** `address` as DNS gives it, or as it stands in a URL without brackets. What cannot be read is not public. */
export function isPublicAddress(address: string): boolean {
  if (isIPv4(address)) return isPublicV4(ipaddr.IPv4.parse(address))
  // A zone (fe80::1%eth0) names an interface of this machine.
  if (!isIPv6(address) || address.includes('%')) return false
  return isPublicV6(ipaddr.IPv6.parse(inGroups(address)))
}

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
  // 6to4, Teredo and the like carry an IPv4 address too, but nobody needs them any more: they do not pass at all.
  return address.range() === 'unicast' && address.match(GLOBAL)
}
