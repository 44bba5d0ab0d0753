// Peers that are libraries on PostgreSQL: there is no server but the database, which is the one that Curfew uses.
const onPostgres = (contender, settings) => ({
  kind: 'peer',
  ...contender,
  async start(stage) {
    const database = await (await stage.postgres()).create()
    return { settings: { url: database.url, ...settings }, pid: null, stop: database.drop }
  },
})

const GRAPHILE = { needs: ['graphile-worker'], driver: new URL('../drivers/graphile.mjs', import.meta.url).href }
const PG_BOSS = { needs: ['pg-boss'], driver: new URL('../drivers/pg-boss.mjs', import.meta.url).href }

export const POSTGRES_PEERS = [
  onPostgres({ id: 'graphile', label: 'graphile-worker', ...GRAPHILE }, { batching: false }),
  onPostgres({ id: 'graphile-batching', label: 'graphile-worker, batching', ...GRAPHILE }, { batching: true }),
  onPostgres({ id: 'pg-boss', label: 'pg-boss', ...PG_BOSS }, { queue: 'work' }),
]
