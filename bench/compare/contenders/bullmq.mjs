// BullMQ on a Redis of its own with the persistence its documentation asks for: an append-only file, and no eviction.
// `everysec` may lose the last second at a loss of power; `always` syncs before it answers, as Curfew does.
import { startRedis } from '../redis.mjs'

const QUEUE = 'work'

const bullmq = (appendfsync) => ({
  id: `bullmq-${appendfsync}`,
  label: `BullMQ, AOF ${appendfsync}`,
  kind: 'peer',
  needs: ['bullmq', 'ioredis'],
  driver: new URL('../drivers/bullmq.mjs', import.meta.url).href,
  async start() {
    const redis = await startRedis({ appendfsync })
    return { settings: { port: redis.port, queue: QUEUE }, pid: redis.pid, stop: redis.stop }
  },
})

export const BULLMQ = [bullmq('everysec'), bullmq('always')]
