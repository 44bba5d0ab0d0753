import { fileURLToPath } from 'node:url'

// The routes share files with the other examples, above this folder. In a project of yours, with `route.ts` and the SDK in
// its own node_modules, only `serverExternalPackages` is needed.
const root = fileURLToPath(new URL('../../..', import.meta.url))

export default {
  distDir: 'dist',
  pageExtensions: ['mjs'],
  // Not bundled: the SDK starts threads and loads modules by their path.
  serverExternalPackages: ['@curfew/sdk'],
  outputFileTracingRoot: root,
  turbopack: { root },
}
