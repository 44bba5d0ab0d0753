// Without it vitest would look for the configuration of this repository. The first test also loads the server.
export default { test: { include: ['*.test.mjs'], testTimeout: 60_000 } }
