// A rate, and what it cost.
import { cpuMs } from '../../lib/processes.mjs'

/** Processor time of the contender's server per job; null where the server is a shared PostgreSQL. */
export async function withServerCpu({ pid }, measure) {
  const before = pid === null ? null : cpuMs(pid)
  const found = await measure()
  const after = pid === null ? null : cpuMs(pid)
  const serverUs = before === null || after === null ? null : ((after - before) * 1000) / (found.handled ?? found.count)
  return { value: found.perSecond, clientUs: found.clientUs, serverUs }
}
