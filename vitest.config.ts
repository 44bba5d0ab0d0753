import { fileURLToPath } from 'node:url'
import { defineConfig } from 'vitest/config'
import { LongestFirst } from './tests/longest-first.ts'

/** Real processes whose tests wait for what happens, and never measure how long it takes: a busy machine only slows them. */
const PATIENT = [
  'api-record',
  'board',
  'board-stories',
  'browser',
  'command-line',
  'command-line-operate',
  'conformance',
  'damage',
  'dev',
  'embedding',
  'examples-deploy',
  'examples-web',
  'input',
  'job-text',
  'journey-command',
  'moving',
  'packages',
  'readme',
  'runners',
  'storage',
].map((name) => `tests/process/${name}.test.ts`)

/**
 * Stories about what happens before a store is asked, or in the SDK and the command line: they say the same on every store, and
 * are told on SQLite alone. `ALL_STORIES=1` tells them on PostgreSQL too.
 */
const ON_ONE_STORE =
  process.env['ALL_STORIES'] === '1'
    ? []
    : [
        ...['definitions-cli', 'explain-cli', 'tokens-cli'],
        ...['example-journeys', 'journey-plan', 'plan'],
        ...['foreign-pages', 'near-misses', 'official-sdks', 'openapi', 'query', 'transport'],
        ...[
          'sdk-client',
          'sdk-handlers',
          'sdk-journeys',
          'sdk-other-servers',
          'sdk-trouble',
          'sdk-worker',
          'sdk-workflows',
        ],
      ].map((name) => `tests/scenarios/${name}.test.ts`)

/** They hold real clocks to tight bounds. Others, with bounds that grow with the load (tests/machine-lag.ts), run side by side. */
const CLOCKS = ['api-deadline', 'examples', 'isolates-deadlines', 'sdk/fence', 'sdk/heartbeat'].map(
  (name) => `tests/process/${name}.test.ts`,
)

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
    sequence: { sequencer: LongestFirst },
    projects: [
      {
        extends: true,
        test: {
          name: 'unit',
          include: [
            'packages/*/src/**/*.test.ts',
            'chaos/src/**/*.test.ts',
            'tests/*.test.ts',
            'tests/scenarios/**/*.test.ts',
            'tests/conformance/**/*.test.ts',
            'tests/costs/**/*.test.ts',
            'bench/**/*.test.ts',
          ],
          testTimeout: 20_000,
          // Files share what they import: loading the server for each file took longer than most files run. Nothing in the
          // code keeps state in a module, so no file can disturb another.
          isolate: false,
          setupFiles: ['tests/setup-files.ts'],
        },
      },
      {
        extends: true,
        test: { name: 'simulation', include: ['tests/simulation/**/*.test.ts'], testTimeout: 120_000 },
      },
      {
        // The stories that touch the store once more, on PostgreSQL.
        extends: true,
        test: {
          name: 'postgres',
          include: ['tests/scenarios/**/*.test.ts'],
          exclude: ON_ONE_STORE,
          globalSetup: ['tests/postgres/setup.ts'],
          testTimeout: 60_000,
          hookTimeout: 60_000,
          isolate: false,
          setupFiles: ['tests/setup-files.ts'],
        },
      },
      {
        // They run the build in dist, beside the other projects.
        extends: true,
        test: {
          name: 'commands',
          include: PATIENT,
          globalSetup: ['tests/process/build.ts'],
          testTimeout: 120_000,
          hookTimeout: 120_000,
        },
      },
      {
        // Real server processes, real sockets, kill -9: when the other projects are done. Their waits outweigh their work,
        // so two files run at a time. They run the build in dist.
        extends: true,
        test: {
          name: 'process',
          include: ['tests/process/**/*.test.ts', 'tests/cluster/**/*.test.ts'],
          exclude: [...PATIENT, ...CLOCKS],
          globalSetup: ['tests/process/build.ts'],
          testTimeout: 60_000,
          hookTimeout: 60_000,
          sequence: { groupOrder: 1 },
        },
      },
      {
        // Tests that hold real clocks to a bound: one file at a time, last, because a busy machine makes clocks lie.
        extends: true,
        test: {
          name: 'clocks',
          include: CLOCKS,
          globalSetup: ['tests/process/build.ts'],
          testTimeout: 60_000,
          hookTimeout: 60_000,
          fileParallelism: false,
          sequence: { groupOrder: 2 },
        },
      },
    ],
  },
})
