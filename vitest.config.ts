import { fileURLToPath } from 'node:url'
import { defineConfig } from 'vitest/config'

export default defineConfig({
  resolve: {
    alias: {
      '@curfew/core': fileURLToPath(new URL('./packages/core/src/index.ts', import.meta.url)),
      '@curfew/sdk/testing': fileURLToPath(new URL('./packages/sdk/src/testing/index.ts', import.meta.url)),
      '@curfew/sdk/telemetry': fileURLToPath(new URL('./packages/sdk/src/telemetry.ts', import.meta.url)),
      '@curfew/sdk': fileURLToPath(new URL('./packages/sdk/src/index.ts', import.meta.url)),
      curfew: fileURLToPath(new URL('./packages/server/src/index.ts', import.meta.url)),
    },
  },
  test: {
    environment: 'node',
    // As many files at a time as there are cores; by default one would be left to the machine.
    maxWorkers: '100%',
    projects: [
      {
        extends: true,
        test: {
          name: 'unit',
          include: ['packages/*/src/**/*.test.ts', 'tests/scenarios/**/*.test.ts', 'tests/conformance/**/*.test.ts'],
          testTimeout: 20_000,
        },
      },
      {
        extends: true,
        test: { name: 'simulation', include: ['tests/simulation/**/*.test.ts'], testTimeout: 120_000 },
      },
      {
        // The same stories once more, on PostgreSQL.
        extends: true,
        test: {
          name: 'postgres',
          include: ['tests/scenarios/**/*.test.ts'],
          globalSetup: ['tests/postgres/setup.ts'],
          testTimeout: 60_000,
          hookTimeout: 60_000,
        },
      },
      {
        // Real server processes, real sockets, kill -9: one file at a time, and only when the other projects are done,
        // because a busy machine makes real clocks lie. They run the build in dist.
        extends: true,
        test: {
          name: 'process',
          include: ['tests/process/**/*.test.ts', 'tests/cluster/**/*.test.ts'],
          globalSetup: ['tests/process/build.ts'],
          testTimeout: 60_000,
          hookTimeout: 60_000,
          fileParallelism: false,
          sequence: { groupOrder: 1 },
        },
      },
    ],
  },
})
