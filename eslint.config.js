// Few rules, each of them a promise. Formatting belongs to prettier; this file keeps the walls between the rooms:
//
//   time     a command is handed its clock and its chance, so a test can turn both by hand
//   imports  http → engine → core, engine → store/store.ts ← sqlite; server.ts puts them together, cli serves it.
//            Within core, engine, http and sdk the folders have arrows of their own (ARCHITECTURE.md).
//            index.ts is for those outside. Arrows never turn round
//
// A rule's options do not merge between blocks: the last block that names a rule wins. So every room states its
// import wall whole.
import js from '@eslint/js'
import { defineConfig } from 'eslint/config'
import tseslint from 'typescript-eslint'

const tests = ['**/*.test.ts', '**/*.test-d.ts', '**/*.suite.ts', 'tests/**']

const handedIn = 'Time and chance are handed in: take clock or random as a parameter.'
const clockModules = {
  regex: '^(node:)?(timers|perf_hooks)(/|$)',
  message: handedIn,
}
const wall = (...patterns) => ['error', { patterns: [clockModules, ...patterns] }]
const outsideOnly = {
  regex: '/index\\.ts$',
  message: 'index.ts is what others see of the package; files inside import each other directly.',
}

/** A folder of core, and what it must not import besides everything outside of core. */
const coreFolder = (folder, message, regex, wire = null) => ({
  name: `wall: core/${folder}`,
  files: [`packages/core/src/${folder}/*.ts`],
  ignores: tests,
  rules: {
    'no-restricted-imports': wall(
      { regex: '^(?!\\.{1,2}/)', message: 'core imports nothing but its own files.' },
      ...(regex === undefined ? [] : [{ regex, message }]),
      ...(wire === null ? [] : [{ regex: wireForRules(wire), message: fewOfTheWire }]),
    ),
  },
})
const into = (names) => `^(\\.\\./)+(${names})/`

const noClock = [
  { selector: "NewExpression[callee.name='Date'][arguments.length=0]", message: handedIn },
  { selector: "CallExpression[callee.name='Date']", message: handedIn },
]

/** Only core/time adds a length to an instant, or takes one instant from another: instants end in `At`, or are `now`. */
const INSTANT = '/At$|^now$/'
const sums = 'Only core/time/sums.ts calculates with instants: use after, before, elapsed, remaining or isDue.'
const noSums = [
  `BinaryExpression[operator=/^[+-]$/] > Identifier[name=${INSTANT}]`,
  `BinaryExpression[operator=/^[+-]$/] > MemberExpression[property.name=${INSTANT}]`,
  `BinaryExpression[operator=/^[+-]$/] > CallExpression[callee.property.name='now']`,
  `AssignmentExpression[operator=/^[+-]=$/] > Identifier.left[name=${INSTANT}]`,
  `AssignmentExpression[operator=/^[+-]=$/] > MemberExpression.left[property.name=${INSTANT}]`,
].map((selector) => ({ selector, message: sums }))

/**
 * The wire leaves the rules: names in snake_case and JSON text are for core/wire. Details of a refusal are not renamed on
 * their way out, so they may have the names of the wire wherever they are made. Values such as 'dead_letter' are words of
 * the protocol, not names of fields.
 */
const SNAKE = '/^[a-z0-9]+(_[a-z0-9]+)+$/'
const onTheWire = 'Names of the wire are for core/wire: take or give a record with our own names.'
const noWireNames = [
  `Property[key.name=${SNAKE}]:not(NewExpression[callee.name='OjsError'] Property)`,
  `TSPropertySignature[key.name=${SNAKE}]`,
  `MemberExpression[computed=false][property.name=${SNAKE}]`,
  `MemberExpression[property.value=${SNAKE}]`,
].map((selector) => ({ selector, message: onTheWire }))
const noJsonText = [
  {
    selector: "CallExpression[callee.object.name='JSON'][callee.property.name='parse']",
    message: 'JSON text is read in core/wire.',
  },
]
/** Their records are answers of the API, and are written as they are. */
const ANSWERS = ['job/explain*', 'job/next*', 'job/plan', 'job/timeline/*', 'series/*', 'access/*'].map(
  (name) => `packages/core/src/${name}.ts`,
)
/** What rules may use of the wire: to write an event or a failure, to read a text that is stored with a job. */
const wireForRules = (allowed) => `^(\\.\\./)+wire/(?!(${allowed})\\.ts$)`
const fewOfTheWire = 'Rules use the wire only to write events and failures, and to read texts stored with a job.'

const engineWall = [
  {
    regex: '^(\\.\\./){2}(?!store/store\\.ts$)',
    message: 'engine imports its own folders and store/store.ts only.',
  },
  { regex: '^(better-sqlite3|pg)$', message: 'No database drivers in the engine: it holds a Store.' },
  { regex: '^node:(http|https|net|fs)', message: 'No I/O in the engine.' },
]
const httpWall = [
  { regex: '^(\\.\\./)+(cli/|store/(?!store\\.ts$))', message: 'http speaks to the engine, not to a store.' },
  { regex: '^\\.\\./\\.\\./[a-z-]+\\.ts$', message: 'http speaks to the engine; the server is put together above it.' },
  { regex: '^(better-sqlite3|pg)$', message: 'http speaks to the engine, not to a database.' },
]

const sdkWall = [
  { regex: '^(\\.\\./)+server/', message: 'The sdk speaks to a server; it holds none.' },
  { regex: '^(better-sqlite3|pg)$', message: 'No database drivers in the sdk: it is handed a client.' },
]

/** A folder of the sdk, and which of the others it may import. */
const sdkFolder = (folder, below) => ({
  name: `wall: sdk/${folder}`,
  files: [`packages/sdk/src/${folder}/*.ts`],
  ignores: tests,
  rules: {
    'no-restricted-imports': wall(
      ...sdkWall,
      {
        regex: '^(\\.\\./)+index\\.ts$',
        message: 'index.ts is what others see of the package; nothing inside imports it.',
      },
      {
        regex: `^\\.\\./(?:\\.\\./)*(?!(?:${below || '-'})/)[a-z-]+/`,
        message: `sdk/${folder} imports ${below === '' ? 'no other folder' : `only ${below.replaceAll('|', ', ')}`} of the sdk.`,
      },
    ),
  },
})

export default defineConfig(
  { ignores: ['**/dist/', '**/coverage/', '**/.curfew/'] },
  js.configs.recommended,

  {
    files: ['**/*.ts', '**/*.tsx'],
    extends: [tseslint.configs.recommendedTypeChecked],
    languageOptions: { parserOptions: { projectService: true, tsconfigRootDir: import.meta.dirname } },
    rules: {
      '@typescript-eslint/switch-exhaustiveness-check': ['error', { considerDefaultExhaustiveForUnions: true }],
      '@typescript-eslint/no-unused-vars': ['error', { argsIgnorePattern: '^_', varsIgnorePattern: '^_' }],
      // A port is async for the implementation that needs it; the others may answer at once.
      '@typescript-eslint/require-await': 'off',
      'no-restricted-exports': ['error', { restrictDefaultExports: { direct: true, named: true, defaultFrom: true } }],
    },
  },
  // A handler may be the default export of its module.
  { files: ['*.config.ts', 'tests/process/handlers/**'], rules: { 'no-restricted-exports': 'off' } },
  {
    // expect.any() and friends are typed any.
    files: tests,
    rules: {
      '@typescript-eslint/no-unsafe-assignment': 'off',
      '@typescript-eslint/no-unsafe-member-access': 'off',
    },
  },
  {
    files: ['**/*.mjs', '**/*.js'],
    languageOptions: {
      globals: {
        process: 'readonly',
        console: 'readonly',
        performance: 'readonly',
        URL: 'readonly',
        fetch: 'readonly',
        Response: 'readonly',
        setTimeout: 'readonly',
        clearTimeout: 'readonly',
        setImmediate: 'readonly',
        AbortController: 'readonly',
        AbortSignal: 'readonly',
        URLSearchParams: 'readonly',
        setInterval: 'readonly',
        clearInterval: 'readonly',
      },
    },
  },

  {
    name: 'wall: time and chance',
    files: ['packages/*/src/**/*.ts'],
    // The board draws the clock of the server: time.ts and query.ts there are its only timers.
    ignores: [...tests, 'packages/server/src/cli/**', 'packages/*/src/host.ts', 'packages/board/**'],
    rules: {
      'no-restricted-globals': [
        'error',
        ...['setTimeout', 'setInterval', 'setImmediate', 'performance'].map((name) => ({ name, message: handedIn })),
      ],
      'no-restricted-properties': [
        'error',
        ...[
          ['Date', 'now'],
          ['Math', 'random'],
          ['process', 'hrtime'],
          ['AbortSignal', 'timeout'],
          ['globalThis', 'setTimeout'],
          ['globalThis', 'setInterval'],
          ['globalThis', 'setImmediate'],
          ['globalThis', 'performance'],
        ].map(([object, property]) => ({ object, property, message: handedIn })),
      ],
      'no-restricted-syntax': ['error', ...noClock],
    },
  },
  {
    name: 'wall: sums on time',
    files: ['packages/server/src/**/*.ts'],
    // The clock of a database is measured by the readings of two clocks, as numbers.
    ignores: [
      ...tests,
      'packages/server/src/cli/**',
      'packages/server/src/host.ts',
      'packages/server/src/store/postgres/clock.ts',
    ],
    rules: { 'no-restricted-syntax': ['error', ...noClock, ...noSums] },
  },
  {
    name: 'wall: the wire leaves the rules',
    files: ['packages/core/src/**/*.ts'],
    // Documents are stored as JSON, whatever their kind.
    ignores: [...tests, 'packages/core/src/wire/**', 'packages/core/src/doc.ts', ...ANSWERS],
    rules: { 'no-restricted-syntax': ['error', ...noClock, ...noWireNames, ...noJsonText] },
  },
  {
    name: 'wall: definitions of journeys and what runs work on are JSON themselves',
    files: ['packages/core/src/journey/**/*.ts'],
    ignores: tests,
    rules: { 'no-restricted-syntax': ['error', ...noClock, ...noWireNames] },
  },
  coreFolder('**', 'core imports nothing but its own files.'),
  coreFolder('time', 'time knows errors, and nothing of jobs.', '^\\.\\./(?!errors\\.ts$)'),
  coreFolder(
    'job/**',
    'The rules of jobs know nothing of what is made of jobs.',
    into('workflow|cron|webhook|journey'),
    'events|shape|job/(job-events|failure|life|job-keys|held-by|render)',
  ),
  ...Object.entries({
    workflow: 'json/json-text|job/failure|workflow/workflow-events',
    cron: 'names/near-miss',
    webhook: 'shape',
    schema: 'shape',
  }).map(([name, wire]) => coreFolder(name, `${name} knows jobs, and nothing of journeys.`, into('journey'), wire)),
  coreFolder('journey/run', 'A run is read, shown and planned by others.', '^\\.\\./(read|view|plan)/'),
  coreFolder('journey/view', 'What is shown is neither read nor planned here.', '^\\.\\./(read|plan)/'),
  {
    name: 'wall: engine knows core and the store port',
    files: ['packages/server/src/engine/**/*.ts'],
    ignores: tests,
    rules: { 'no-restricted-imports': wall(...engineWall) },
  },
  {
    name: 'wall: queues, schemas and metrics know the kernel only',
    files: ['queues', 'schemas', 'metrics'].map((name) => `packages/server/src/engine/${name}/*.ts`),
    ignores: tests,
    rules: {
      'no-restricted-imports': wall(...engineWall, {
        regex: '^\\.\\./(?!kernel/|\\.\\./)',
        message: 'Others build on this folder; it knows the kernel only.',
      }),
    },
  },
  {
    name: 'wall: store knows no folder above it',
    files: ['packages/server/src/store/**/*.ts'],
    ignores: tests,
    rules: {
      'no-restricted-imports': wall({
        regex:
          '^(\\.\\./)+((engine|http|cli)/|(index|server|settings(-table|-sources)?|engine-settings|open-store|version)\\.ts$)',
        message: 'A store finds, orders, locks and writes; it does not know engine, http, cli or the server.',
      }),
    },
  },
  {
    name: 'wall: the sdk knows core, and no server',
    files: ['packages/sdk/src/**/*.ts'],
    ignores: tests,
    rules: { 'no-restricted-imports': wall(...sdkWall) },
  },
  // What each folder of the sdk may import of the others. Files beside the folders are for all of them.
  ...Object.entries({
    wire: '',
    job: 'wire',
    workflow: 'wire|job',
    journey: 'wire|job',
    client: 'wire|job|workflow|journey',
    'client/http': 'client',
    attempt: 'wire|job',
    isolate: 'attempt',
    guard: 'attempt|isolate|client',
    worker: 'wire|job|attempt|isolate|guard|client',
    testing: 'wire|job|attempt|client|worker',
  }).map(([folder, below]) => sdkFolder(folder, below)),
  {
    name: 'wall: files of the sdk for all folders know types of the wire only',
    files: ['packages/sdk/src/*.ts'],
    ignores: [...tests, ...['index', 'telemetry'].map((name) => `packages/sdk/src/${name}.ts`)],
    rules: {
      'no-restricted-imports': wall(...sdkWall, {
        regex: '^\\./(?!wire/)[a-z-]+/',
        message: 'A file beside the folders serves all of them: put it into the folder that it needs.',
      }),
    },
  },
  {
    name: 'wall: the board knows core, and no server',
    files: ['packages/board/src/**/*.{ts,tsx}'],
    ignores: tests,
    rules: {
      'no-restricted-imports': [
        'error',
        {
          patterns: [
            { regex: '^node:', message: 'The board runs in a browser.' },
            {
              regex: '^(\\.\\./)+(server|sdk)/',
              message: 'The board speaks to a server over HTTP, and shares nothing with it but core.',
            },
          ],
        },
      ],
      'no-restricted-syntax': [
        'error',
        {
          selector: "JSXAttribute[name.name='dangerouslySetInnerHTML']",
          message: 'Text of clients is text: it never becomes markup.',
        },
      ],
    },
  },
  {
    name: 'wall: http knows engine and core',
    files: ['packages/server/src/http/**/*.ts'],
    ignores: tests,
    rules: { 'no-restricted-imports': wall(...httpWall) },
  },
  {
    name: 'wall: sockets and shapes know no routes',
    files: ['packages/server/src/http/transport/*.ts', 'packages/server/src/http/shapes/*.ts'],
    ignores: tests,
    rules: {
      'no-restricted-imports': wall(...httpWall, {
        regex: '^\\.\\./routes/',
        message: 'Only api/app.ts lists the routes.',
      }),
    },
  },
  {
    name: 'wall: net knows its port',
    files: ['packages/server/src/net/**/*.ts'],
    ignores: tests,
    rules: {
      'no-restricted-imports': wall({
        regex: '^\\.\\./(?!engine/outgoing\\.ts$)',
        message: 'net makes calls for the engine, through engine/outgoing.ts, and knows no other folder.',
      }),
    },
  },
  {
    name: 'wall: expressions know their port',
    files: ['packages/server/src/expressions/**/*.ts'],
    ignores: [...tests, 'packages/server/src/expressions/thread-main.ts'],
    rules: {
      'no-restricted-imports': wall({
        regex: '^\\.\\./(?!engine/expressions\\.ts$)',
        message: 'expressions are evaluated for the engine, through engine/expressions.ts, and know no other folder.',
      }),
    },
  },
  {
    name: 'wall: the server does not know the command line',
    files: ['packages/server/src/*.ts'],
    ignores: [...tests, 'packages/server/src/host.ts'],
    rules: {
      'no-restricted-imports': wall(outsideOnly, {
        regex: '^\\./cli/',
        message: 'The command line serves the server; an application may do without it.',
      }),
    },
  },
  {
    name: 'wall: the command line comes in by the rooms',
    files: ['packages/server/src/cli/**/*.ts'],
    ignores: tests,
    rules: { 'no-restricted-imports': ['error', { patterns: [outsideOnly] }] },
  },
)
