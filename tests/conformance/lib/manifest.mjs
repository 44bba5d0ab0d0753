// What a server says that it has. With --offered, cases about what it has not are left out.

const capability = (name) => (manifest) => manifest?.capabilities?.[name] !== false
const extension = (name) => (manifest) => manifest?.extensions?.includes(`urn:ojs:ext:${name}`) ?? true

/** By the tag of the case. Whatever has no line here is expected of everybody. */
const OFFERS = {
  batch: capability('batch_enqueue'),
  cron: capability('cron_jobs'),
  'dead-letter': capability('dead_letter'),
  'rate-limit': capability('rate_limiting'),
  unique: capability('unique_jobs'),
  workflow: capability('workflows'),
  backpressure: extension('backpressure'),
  checkpoint: extension('durable-execution'),
  progress: extension('progress'),
}

/** The tag of something that the case needs and the server does not offer. */
export function notOffered({ tags }, manifest) {
  return tags.find((tag) => Object.hasOwn(OFFERS, tag) && !OFFERS[tag](manifest))
}
