/**
 * Where the files are that threads and processes begin with. They run plain JavaScript: when the SDK itself runs from its
 * sources, as in its tests, the built files beside them are taken.
 */
export function entryUrl(name: 'isolate/thread-main' | 'isolate/process-main' | 'guard/thread'): URL {
  const here = import.meta.url
  return new URL(here.endsWith('.ts') ? `../../dist/${name}.js` : `../${name}.js`, here)
}
