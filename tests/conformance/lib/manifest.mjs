// What a server says that it has. Cases that require an extension which its manifest does not name are left out; with
// --offered, also those about capabilities that it does not have.

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

/** Paths and fields beyond the HTTP binding: an extension that the case needs and the manifest does not name. */
export function notNamed({ requires }, manifest) {
  const named = Array.isArray(manifest?.extensions) ? manifest.extensions : []
  return requires.find((extension) => !named.includes(extension))
}

/** The tag of something that the case needs and the server does not offer. */
export function notOffered({ tags }, manifest) {
  return tags.find((tag) => Object.hasOwn(OFFERS, tag) && !OFFERS[tag](manifest))
}
