/**
 * Where the files are that isolates begin with. Isolates run plain JavaScript: when the SDK itself runs from its sources,
 * as in its tests, the built files beside them are taken.
 */
export function entryUrl(name: 'thread-main' | 'process-main'): URL {
  const here = import.meta.url
  return here.endsWith('.ts') ? new URL(`../../dist/isolate/${name}.js`, here) : new URL(`./${name}.js`, here)
}
