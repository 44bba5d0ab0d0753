/**
 * Every code there is, each with a definition that has this one thing wrong. § stands where the author is to look.
 */
import { clockFrom, days } from '@curfew/core'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { InProcessExpressions } from '../../expressions/in-process.ts'
import { nodeHost } from '../../host.ts'
import { checksWith, judge } from './verdict.ts'

const expressions = new InProcessExpressions({ host: nodeHost, clock: clockFrom(nodeHost), random: () => 0.5 })
const checks = checksWith(expressions, { defaultMs: days(1), capMs: days(7) })
const pause = (): Promise<void> => Promise.resolve()
const verdictOn = (text: string) => judge(text, checks, pause)

/** The text without its mark, and where the mark was. */
function marked(text: string): { text: string; line: number; column: number } {
  const at = text.indexOf('§')
  if (at < 0) throw new Error('no mark in the text')
  const before = text.slice(0, at).split('\n')
  return { text: text.replace('§', ''), line: before.length, column: (before.at(-1)?.length ?? 0) + 1 }
}

const HEAD = 'apiVersion: v1\nkind: Journey\nmetadata: { name: a, version: 1.0.0 }\n'
const API = HEAD.replace('Journey', 'Api')
const END = '    end: { type: succeed }\n'
/** A definition whose state `one` is this. */
const one = (state: string, head = HEAD): string => `${head}spec:\n  start: one\n  states:\n    one: ${state}\n${END}`
/** A definition that goes from its start to its end, with more in `spec`. */
const spec = (more: string, head = HEAD): string =>
  `${head}spec:\n  start: end\n${more.replaceAll(/^/gm, '  ')}\n  states:\n${END}`
const http = (fields: string): string => one(`{ type: task, task: { kind: httpCall:v1, ${fields} }, next: end }`)
const job = (fields: string): string => one(`{ type: task, task: { kind: job:v1, ${fields} }, next: end }`)
const PREDICATE = "predicate: { lang: jsonata, expr: 'true' }"
const branches = (first: string, second: string): string =>
  one(`
      type: parallel
      parallel:
        branches:
          - { name: x, start: ask, states: { ${first}, done: { type: succeed } } }
          - { name: y, start: ask, states: { ${second}, done: { type: succeed } } }
      next: end`)
const ASK = 'ask: { type: wait, wait: { input: { schema: true } }, next: done }'

type Case = readonly [what: string, code: string, path: string, text: string, message: RegExp]

// prettier-ignore
const ERRORS: readonly Case[] = [
  // SYNTAX-1
  ['a text that does not parse', 'SYNTAX-1', '', 'a: [1\n§b: 2', /Flow sequence/],
  ['nothing at all', 'SYNTAX-1', '', '§', /empty/],
  ['a key that is there twice', 'SYNTAX-1', '/kind', `${HEAD}§kind: Journey\n`, /"kind" is there twice/],
  ['a second document', 'SYNTAX-1', '', `${HEAD}§---\na: 1\n`, /one document/],
  ['an alias without its anchor', 'SYNTAX-1', '/a', 'a: §*b\n', /no anchor/],
  ['a value that JSON does not have', 'SYNTAX-1', '/a', 'a: §.nan\n', /not a JSON value/],
  ['a type that JSON does not have', 'SYNTAX-1', '/a', 'a: !!binary §aGk=\n', /not a type of JSON/],
  ['nesting without end', 'SYNTAX-1', '/0'.repeat(64), `${'['.repeat(64)}§[${']'.repeat(65)}`, /deeper than 64/],
  // SHAPE-1
  ['a definition that is none', 'SHAPE-1', '', '§hello\n', /must be a mapping/],
  ['another apiVersion', 'SHAPE-1', '/apiVersion', one('{ type: succeed }').replace('v1', '§v2'), /must be v1/],
  ['another kind', 'SHAPE-1', '/kind', one('{ type: succeed }').replace('Journey', '§Saga'), /one of Journey, Api/],
  ['an unknown key', 'SHAPE-1', '/spec/states/end/colour', spec('').replace('succeed }', 'succeed, §colour: red }'), /Unknown key "colour"/],
  ['a part that is missing', 'SHAPE-1', '/spec/states/one', one('§{ outputVar: x }'), /type is missing/],
  ['a version that is a number', 'SHAPE-1', '/metadata/version', spec('').replace('1.0.0', '§1.0'), /put it in quotes/],
  ['what the language has and we have not', 'SHAPE-1', '/spec/cookies', spec('§cookies: {}'), /not supported here/],
  ['a task we do not have', 'SHAPE-1', '/spec/states/one/task/kind', one('{ type: task, task: { kind: §cache:v1 }, next: end }'), /cache:v1 is not supported here/],
  ['an unknown type of state', 'SHAPE-1', '/spec/states/one/type', one('{ type: §sleep }'), /type must be one of task, choice/],
  ['a placeholder that is none', 'SHAPE-1', '/spec/states/one/reason', one("{ type: fail, errorCode: X, reason: §'${context.a[0]}' }"), /is not a placeholder/],
  ['a target without its variable', 'SHAPE-1', '/spec/states/one/transform', one("{ type: transform, transform: §{ mapper: { lang: jsonata, expr: '1' }, target: { kind: var } }, next: end }"), /resultVar is missing/],
  // NAME-1
  ['a name with capitals', 'NAME-1', '/metadata/name', spec('').replace('name: a', 'name: §Order'), /DNS label/],
  ['a name that is missing', 'NAME-1', '/metadata', spec('').replace('{ name: a, ', '§{ '), /name is missing/],
  ['a variable with a dash', 'NAME-1', '/spec/states/one/outputVar', one('{ type: succeed, outputVar: §a-b }'), /a name: letters/],
  ['a state with a slash', 'NAME-1', '/spec/states/a~1b', spec('').replace('    end', '    §a/b: { type: succeed }\n    end'), /made of letters/],
  ['two branches of one name', 'NAME-1', '/spec/states/one/parallel/branches/1/name', branches('ask: { type: succeed }', 'ask: { type: succeed }').replace('name: y', 'name: §x'), /Two branches/],
  // EXEC-1
  ['a budget of nothing', 'EXEC-1', '/spec/execution/maxDurationSec', spec('execution: { maxDurationSec: §0, onTimeout: { errorCode: A, reason: b } }'), /whole number of at least 1/],
  ['a budget in halves', 'EXEC-1', '/spec/execution/maxDurationSec', spec('execution: { maxDurationSec: §1.5, onTimeout: { errorCode: A, reason: b } }'), /whole number/],
  ['a budget without its ending', 'EXEC-1', '/spec/execution', spec('execution: §{ maxDurationSec: 5 }'), /onTimeout is missing/],
  ['an ending without a reason', 'EXEC-1', '/spec/execution/onTimeout', spec('execution: { maxDurationSec: 5, onTimeout: §{ errorCode: A } }'), /reason is missing/],
  ['an empty code', 'EXEC-1', '/spec/execution/onTimeout/errorCode', spec("execution: { maxDurationSec: 5, onTimeout: { errorCode: §'', reason: b } }"), /not empty/],
  ['an unknown key of the budget', 'EXEC-1', '/spec/execution/grace', spec('execution: { §grace: 1, maxDurationSec: 5, onTimeout: { errorCode: A, reason: b } }'), /Unknown key "grace"/],
  ['a placeholder of the ending that is none', 'EXEC-1', '/spec/execution/onTimeout/reason', spec("execution: { maxDurationSec: 5, onTimeout: { errorCode: A, reason: §'${a}' } }"), /is not a placeholder/],
  // KIND
  ['a wait in an Api', 'KIND-1', '/spec/states/one/type', one('{ type: §wait, wait: { input: { schema: true } }, next: end }', API), /kind Api must not have a wait/],
  ['a timer in a subjourney of an Api', 'KIND-1', '/spec/subjourneys/s/states/t/type', one('{ type: subjourney, subjourney: { ref: s }, next: end }', API) + '  subjourneys: { s: { start: t, states: { t: { type: §timer, timer: { duration: PT1S }, next: e }, e: { type: succeed } } } }\n', /kind Api must not have a timer/],
  ['a lifecycle of an Api', 'KIND-1', '/spec/lifecycle', spec('§lifecycle: { startMode: sync }', API), /must not have a lifecycle/],
  ['attributes in an Api', 'KIND-1', '/spec/states/one/transform/target/kind', one("{ type: transform, transform: { mapper: { lang: jsonata, expr: '{}' }, target: { kind: §attributes } }, next: end }", API), /must not write attributes/],
  ['a schedule in an Api', 'KIND-1', '/spec/states/one/task/kind', one('{ type: task, task: { kind: §schedule:v1 }, next: end }', API), /must not have a schedule/],
  ['answers of an Api in a Journey', 'KIND-2', '/spec/bindings/http/apiResponses', spec('bindings: { http: { §apiResponses: { rules: [] } } }'), /kind Api only/],
  ['two statuses', 'KIND-2', '/spec/bindings/http/apiResponses/rules/0', spec("bindings: { http: { apiResponses: { rules: [§{ when: { phase: FAILED }, status: 500, statusExpr: { lang: jsonata, expr: '500' } }] } } }", API), /exactly one/],
  ['no status', 'KIND-2', '/spec/bindings/http/apiResponses/rules/0', spec('bindings: { http: { apiResponses: { rules: [§{ when: { phase: FAILED } }] } } }', API), /exactly one/],
  ['a status that is none', 'KIND-2', '/spec/bindings/http/apiResponses/rules/0/status', spec('bindings: { http: { apiResponses: { rules: [{ when: { phase: FAILED }, status: §600 }] } } }', API), /from 400 to 599/],
  ['a failure told as a success', 'KIND-2', '/spec/bindings/http/apiResponses/rules/0/status', spec('bindings: { http: { apiResponses: { rules: [{ when: { phase: FAILED }, status: §200 }] } } }', API), /from 400 to 599, because the run has failed/],
  ['failures told as a success by default', 'KIND-2', '/spec/bindings/http/apiResponses/default/FAILED', spec('bindings: { http: { apiResponses: { default: { FAILED: §200 } } } }', API), /from 400 to 599/],
  ['a failure told by an interim status', 'KIND-2', '/spec/bindings/http/apiResponses/default/FAILED', spec('bindings: { http: { apiResponses: { default: { FAILED: §150 } } } }', API), /from 400 to 599/],
  ['a success told by an interim status', 'KIND-2', '/spec/bindings/http/apiResponses/default/SUCCEEDED', spec('bindings: { http: { apiResponses: { default: { SUCCEEDED: §100 } } } }', API), /from 200 to 599/],
  ['a success told by a status that has no body', 'KIND-2', '/spec/bindings/http/apiResponses/default/SUCCEEDED', spec('bindings: { http: { apiResponses: { default: { SUCCEEDED: §205 } } } }', API), /from 200 to 599, but not 205, which must have no body/],
  ['a rule with a status that has no body', 'KIND-2', '/spec/bindings/http/apiResponses/rules/0/status', spec('bindings: { http: { apiResponses: { rules: [{ when: { phase: SUCCEEDED }, status: §205 }] } } }', API), /but not 205/],
  ['the type of an error that is none', 'KIND-2', '/spec/bindings/http/apiResponses/rules/0/when/errorType', spec('bindings: { http: { apiResponses: { rules: [{ when: { phase: SUCCEEDED, §errorType: X }, status: 200 }] } } }', API), /phase FAILED only/],
  // GRAPH
  ['a start that is not a state', 'GRAPH-1', '/spec/start', spec('').replace('start: end', 'start: §begin'), /start leads to "begin"/],
  ['a next that is not a state', 'GRAPH-1', '/spec/states/one/next', one('{ type: timer, timer: { duration: PT1S }, next: §gone }'), /next leads to "gone"/],
  ['a next that is missing', 'GRAPH-1', '/spec/states/one', one('§{ type: timer, timer: { duration: PT1S } }'), /next is missing/],
  ['a way out of a branch', 'GRAPH-1', '/spec/states/one/parallel/branches/0/states/ask/next', branches('ask: { type: timer, timer: { duration: PT1S }, next: §end }', 'ask: { type: succeed }'), /not a state of this graph/],
  ['a default that is not a state', 'GRAPH-1', '/spec/states/one/default', one(`{ type: choice, choices: [{ when: { ${PREDICATE} }, next: end }], default: §gone }`), /default leads to "gone"/],
  ['a subjourney that is not there', 'GRAPH-1', '/spec/states/one/subjourney/ref', one('{ type: subjourney, subjourney: { ref: §s }, next: end }'), /no subjourney "s"/],
  ['a binding of no step', 'GRAPH-1', '/spec/bindings/http/steps/ask', spec('bindings: { http: { steps: { §ask: {} } } }'), /no wait or webhook "ask"/],
  ['a loop in an Api that nothing leads out of', 'GRAPH-2', '/spec/states/one', one("{ type: transform, transform: { mapper: { lang: jsonata, expr: '{}' } }, next: one }", API).replace('    one:', '    §one:'), /leads out of it/],
  ['a subjourney within itself', 'GRAPH-2', '/spec/subjourneys/s', spec('subjourneys: { §s: { start: t, states: { t: { type: subjourney, subjourney: { ref: s }, next: e }, e: { type: succeed } } } }'), /leads into itself/],
  // WAIT
  ['a step without a schema', 'WAIT-1', '/spec/states/one/wait', one('{ type: wait, wait: §{ channel: manual }, next: end }'), /input is missing/],
  ['a timeout without a way', 'WAIT-1', '/spec/states/one/wait/timeoutSec', one('{ type: wait, wait: { input: { schema: true }, timeoutSec: §5 }, next: end }'), /needs onTimeout/],
  ['a way without a timeout', 'WAIT-1', '/spec/states/one/webhook/onTimeout', one('{ type: webhook, webhook: { input: { schema: true }, onTimeout: §end }, next: end }'), /needs timeoutSec/],
  ['a timeout of nothing', 'WAIT-1', '/spec/states/one/wait/timeoutSec', one('{ type: wait, wait: { input: { schema: true }, timeoutSec: §0, onTimeout: end }, next: end }'), /at least 1/],
  ['a step called cancel', 'WAIT-1', '/spec/states/cancel', spec('').replace('    end', '    §cancel: { type: wait, wait: { input: { schema: true } }, next: end }\n    end'), /must not be called cancel/],
  ['a step called cancel in a branch', 'WAIT-1', '/spec/states/one/parallel/branches/0/states/cancel', branches('ask: { type: succeed }, §cancel: { type: wait, wait: { input: { schema: true } }, next: done }', 'ask: { type: succeed }'), /must not be called cancel/],
  ['two open steps of one name', 'WAIT-2', '/spec/states/one/parallel/branches/1/states/ask', branches(ASK, `§${ASK}`), /may be open at once/],
  // HTTP
  ['a call without an address', 'HTTP-1', '/spec/states/one/task', http('resultVar: x').replace('task: {', 'task: §{'), /method and url are missing/],
  ['an address that is relative', 'HTTP-1', '/spec/states/one/task/url', http('method: GET, url: §/orders'), /must be absolute/],
  ['a host from the data', 'HTTP-1', '/spec/states/one/task/url', http("method: GET, url: §'https://${context.host}/x'"), /before the path/],
  ['a placeholder with an index', 'HTTP-1', '/spec/states/one/task/url', http("method: GET, url: §'https://a.example/${context.a[0]}'"), /is not a placeholder/],
  ['a body on a GET', 'HTTP-1', '/spec/states/one/task/body', http('method: GET, url: https://a.example, §body: {}'), /A GET has no body/],
  ['a timeout of nothing', 'HTTP-1', '/spec/states/one/task/timeoutMs', http('method: GET, url: https://a.example, timeoutMs: §0'), /at least 1/],
  ['a result of a notification', 'HTTP-1', '/spec/states/one/task/resultVar', http('mode: notify, method: GET, url: https://a.example, §resultVar: x'), /does not go with mode notify/],
  ['a method that is none', 'HTTP-1', '/spec/states/one/task/method', http('method: §FETCH, url: https://a.example'), /one of GET/],
  ['two bindings', 'HTTP-1', '/spec/states/one/task/url', http('operationRef: a.b, §url: https://a.example'), /not both/],
  ['an API that is not there', 'HTTP-1', '/spec/states/one/task/operationRef', http('operationRef: §users.get'), /no API "users"/],
  ['an API in a file', 'HTTP-1', '/spec/apis/users/openApiRef', spec('apis: { users: { openApiRef: §users.yaml } }'), /put the document itself under openApi/],
  ['a header that cannot be sent', 'HTTP-1', '/spec/states/one/task/headers/a b', http('method: GET, url: https://a.example, headers: { §a b: x }'), /header/],
  ['a policy that is not there', 'HTTP-2', '/spec/states/one/task/resiliencePolicyRef', http('method: GET, url: https://a.example, resiliencePolicyRef: §calm'), /no policy "calm"/],
  // AUTH-1
  ['a secret instead of its name', 'AUTH-1', '/spec/states/one/task/auth/secretRef', http("method: GET, url: https://a.example, auth: { secretRef: §'Bearer abc+/=' }"), /the name of a secret/],
  ['auth without a secret', 'AUTH-1', '/spec/states/one/task/auth', http('method: GET, url: https://a.example, auth: §{ scheme: bearer }'), /secretRef is missing/],
  ['basic auth without a user', 'AUTH-1', '/spec/states/one/task/auth', http('method: GET, url: https://a.example, auth: §{ secretRef: a, scheme: basic }'), /username is missing/],
  ['a scheme beside a header', 'AUTH-1', '/spec/states/one/task/auth/scheme', http('method: GET, url: https://a.example, auth: { secretRef: a, header: X-Key, §scheme: bearer }'), /does not go with header/],
  ['a header of the connection', 'AUTH-1', '/spec/states/one/task/auth/header', http('method: GET, url: https://a.example, auth: { secretRef: a, header: §Host }'), /belongs to the connection/],
  ['auth beside the header it makes', 'AUTH-1', '/spec/states/one/task/auth', http('method: GET, url: https://a.example, headers: { Authorization: x }, §auth: { secretRef: a }'), /give one of the two/],
  ['a policy of auth that is not there', 'AUTH-1', '/spec/states/one/task/auth/policyRef', http('method: GET, url: https://a.example, auth: { policyRef: §p }'), /no policy "p"/],
  ['a policy we do not have', 'AUTH-1', '/spec/policies/httpClientAuth/definitions/p/kind', spec('policies: { httpClientAuth: { definitions: { p: { kind: §mtlsClient, clientCertRef: a } } } }'), /not supported here/],
  // JOB-1
  ['a job without a type', 'JOB-1', '/spec/states/one/task', job('queue: q').replace('task: {', 'task: §{'), /type is missing/],
  ['a job with a bad type', 'JOB-1', '/spec/states/one/task/type', job('type: §Mail'), /type must be a job type/],
  ['a job with a bad queue', 'JOB-1', '/spec/states/one/task/queue', job('type: mail, queue: §Q'), /queue must be/],
  ['a job of the server itself', 'JOB-1', '/spec/states/one/task/queue', job('type: mail, queue: §curfew.webhooks'), /belong to the server/],
  ['a job with a timeout of nothing', 'JOB-1', '/spec/states/one/task/timeoutSec', job('type: mail, timeoutSec: §0'), /timeoutSec must be/],
  ['a total shorter than one attempt', 'JOB-1', '/spec/states/one/task/totalTimeoutSec', job('type: mail, timeoutSec: 9, totalTimeoutSec: §5'), /totalTimeoutSec .* must not be shorter than timeoutSec/],
  ['onTimeout of a job', 'JOB-1', '/spec/states/one/task/onTimeout', job('type: mail, §onTimeout: discard'), /timeoutMode/],
  ['a mode of timeouts that is none', 'JOB-1', '/spec/states/one/task/timeoutMode', job('type: mail, timeoutMode: §requeue'), /timeoutMode must be one of retry, discard/],
  ['a detached job that is awaited', 'JOB-1', '/spec/states/one/task/detach', job('type: mail, detach: §true'), /mode notify only/],
  ['arguments that are no list', 'JOB-1', '/spec/states/one/task/args', job('type: mail, args: §{ a: 1 }'), /args must be a list/],
  ['a bad policy of retries', 'JOB-1', '/spec/states/one/task/retry', job('type: mail, retry: §{ max_attempts: -1 }'), /max_attempts/],
  // The rest
  ['compensation while the caller waits', 'COMP-1', '/spec/compensation/mode', spec('compensation: { mode: §sync, start: e, states: { e: { type: succeed } } }'), /not supported/],
  ['a route outside /apis/', 'ROUTE-1', '/spec/bindings/http/route/path', spec('bindings: { http: { route: { path: §/quotes } } }', API), /below \/apis\//],
  ['a route of a Journey', 'ROUTE-1', '/spec/bindings/http/route', spec('bindings: { http: { §route: { path: /apis/a } } }'), /kind Api only/],
  ['another method', 'ROUTE-1', '/spec/bindings/http/route/method', spec('bindings: { http: { route: { method: §GET } } }', API), /must be POST/],
  ['a timer without a time', 'TIMER-1', '/spec/states/one/timer', one('{ type: timer, timer: §{}, next: end }'), /exactly one/],
  ['a timer with two times', 'TIMER-1', '/spec/states/one/timer', one("{ type: timer, timer: §{ duration: PT1S, until: '2030-01-01T00:00:00Z' }, next: end }"), /exactly one/],
  ['a duration that is none', 'TIMER-1', '/spec/states/one/timer/duration', one('{ type: timer, timer: { duration: §5m }, next: end }'), /ISO 8601/],
  ['an instant without a zone', 'TIMER-1', '/spec/states/one/timer/until', one("{ type: timer, timer: { until: §'2030-01-01T00:00:00' }, next: end }"), /RFC 3339/],
  ['an expression without a language', 'EXPR-1', '/spec/mappers/m', spec("mappers: { m: §{ expr: 'context.a' } }"), /must name its language/],
  ['DataWeave', 'EXPR-1', '/spec/mappers/m/lang', spec("mappers: { m: { lang: §dataweave, expr: 'context.a' } }"), /not available here; available: jsonata.*docs\/expressions\.md/],
  ['an unknown language', 'EXPR-1', '/spec/mappers/m/lang', spec("mappers: { m: { lang: §perl, expr: 'context.a' } }"), /available: jsonata/],
  ['an expression that does not parse', 'EXPR-1', '/spec/mappers/m/expr', spec("mappers: { m: { lang: jsonata, expr: §'context.' } }"), /./],
  ['a mapper twice', 'EXPR-1', '/spec/states/one/transform/mapperRef', one("{ type: transform, transform: { mapper: { lang: jsonata, expr: '1' }, §mapperRef: m }, next: end }"), /not both/],
  ['a mapper that is not there', 'EXPR-1', '/spec/states/one/transform/mapperRef', one('{ type: transform, transform: { mapperRef: §m }, next: end }'), /no mapper "m"/],
  ['no mapper', 'EXPR-1', '/spec/states/one/transform', one('{ type: transform, transform: §{}, next: end }'), /mapper is missing/],
  ['a schema that is none', 'SCHEMA-1', '/spec/input/schema/properties/a/type', spec('input: { schema: { properties: { a: { type: §text } } } }'), /must be one of null, boolean/],
  ['a schema from elsewhere', 'SCHEMA-1', '/spec/input/schema/$ref', spec("input: { schema: { $ref: §'https://a.example/s.json' } }"), /nothing is fetched/],
  ['a step that shows what every answer has', 'SCHEMA-1', '/spec/states/one/wait/response/schema/properties/phase', one('{ type: wait, wait: { input: { schema: true }, response: { outputVar: x, schema: { properties: { §phase: true } } } }, next: end }'), /every answer has/],
  ['an outcome that shows what every answer has', 'SCHEMA-1', '/spec/output/response/schema/properties/error', spec('output: { response: { outputVar: x, schema: { properties: { §error: true } } } }'), /every answer has/],
]

// prettier-ignore
const WARNINGS: readonly Case[] = [
  ['the old name of the kind', 'DEPR-1', '/kind', spec('').replace('Journey', '§Workflow'), /write Journey/],
  ['the old place of next', 'DEPR-1', '/spec/states/one/wait/default', one('{ type: wait, wait: { input: { schema: true }, §default: end } }'), /write next beside wait/],
  ['a budget above the cap', 'EXEC-2', '/spec/execution/maxDurationSec', spec('lifecycle: { startMode: async }\nexecution: { maxDurationSec: §9000000, onTimeout: { errorCode: A, reason: b } }'), /runs get 604800 s/],
  ['any budget, however long', 'EXEC-2', '/spec/execution/maxDurationSec', spec('lifecycle: { startMode: async }\nexecution: { maxDurationSec: §9007199254740, onTimeout: { errorCode: A, reason: b } }'), /runs get 604800 s/],
  ['a call that outlasts the run', 'EXEC-3', '/spec/states/one/task/timeoutMs', http('method: GET, url: https://a.example, timeoutMs: §5000').replace('spec:', 'spec:\n  execution: { maxDurationSec: 5, onTimeout: { errorCode: A, reason: b } }'), /the run ends first/],
  ['a step that outlasts the run', 'EXEC-3', '/spec/states/one/wait/timeoutSec', one('{ type: wait, wait: { input: { schema: true }, timeoutSec: §86400, onTimeout: end }, next: end }'), /86400 s/],
  ['a job that outlasts the run', 'EXEC-3', '/spec/states/one/task/totalTimeoutSec', job('type: mail, totalTimeoutSec: §86400'), /the run ends first/],
  ['a timer before the first answer', 'EXEC-4', '/spec/states/one', one('{ type: timer, timer: { duration: PT1S }, next: end }').replace('    one', '    §one'), /startMode: async/],
  ['a start that may take long', 'EXEC-4', '/spec/execution/maxDurationSec', spec('execution: { maxDurationSec: §61, onTimeout: { errorCode: A, reason: b } }'), /startMode: async/],
  ['a state nothing leads to', 'GRAPH-1', '/spec/states/lost', spec('').replace('    end', '    §lost: { type: succeed }\n    end'), /Nothing leads to the state lost/],
  ['a subjourney nothing refers to', 'GRAPH-1', '/spec/subjourneys/s', spec('subjourneys: { §s: { start: t, states: { t: { type: succeed } } } }'), /Nothing refers to/],
  ['a choice without default', 'CHOICE-1', '/spec/states/one', one(`§{ type: choice, choices: [{ when: { ${PREDICATE} }, next: end }] }`), /RUNTIME_NO_CHOICE/],
  ['an envelope without the code of the error', 'ERROR-1', '/spec/errors/envelope', spec("errors: { envelope: §{ format: custom, mapper: { lang: jsonata, expr: '{\"message\": error.title}' } } }"), /leaves out the code/],
  ['a busy loop', 'GRAPH-2', '/spec/states/one', one(`{ type: choice, choices: [{ when: { ${PREDICATE} }, next: one }], default: end }`).replace('    one:', '    §one:'), /Nothing on this loop waits/],
]

describe('errors', () => {
  test.each(ERRORS)('%s is %s', async (_, code, path, text, message) => {
    const { text: plain, line, column } = marked(text)
    const { definition, errors } = await verdictOn(plain)
    expect(definition).toBeNull()
    expect(errors).toEqual([{ code, path, line, column, message: expect.stringMatching(message) }])
  })
})

test.each(['error', '{"error": error.code}', '{"kind": $lowercase("x"), "type": error.type}', '$number(error)'])(
  'an envelope that shows the code, or cannot be tried, gives no warning: %s',
  async (expr) => {
    const text = spec(`errors: { envelope: { format: custom, mapper: { lang: jsonata, expr: '${expr}' } } }`)
    expect(await verdictOn(text)).toMatchObject({ errors: [], warnings: [] })
  },
)

describe('warnings', () => {
  test.each(WARNINGS)('%s is %s', async (_, code, path, text, message) => {
    const { text: plain, line, column } = marked(text)
    const { definition, errors, warnings } = await verdictOn(plain)
    expect(errors).toEqual([])
    expect(definition).not.toBeNull()
    expect(warnings).toEqual([{ code, path, line, column, message: expect.stringMatching(message) }])
  })
})

test('tells everything at once, in the order of the text', async () => {
  const text = one('{ type: wait, wait: { timeoutSec: 0 } }').replace('name: a', 'name: A')
  const { errors } = await verdictOn(text)
  expect(errors.map(({ code, path }) => [code, path])).toEqual([
    ['NAME-1', '/metadata/name'],
    ['GRAPH-1', '/spec/states/one'],
    ['WAIT-1', '/spec/states/one/wait'],
    ['WAIT-1', '/spec/states/one/wait/timeoutSec'],
    ['WAIT-1', '/spec/states/one/wait/timeoutSec'],
  ])
})

test('takes JSON through the same door, tabs and all', async () => {
  const json = JSON.stringify(
    {
      apiVersion: 'v1',
      kind: 'Journey',
      metadata: { name: 'a', version: '1' },
      spec: { start: 'e', states: { e: { type: 'succeed' } } },
    },
    null,
    '\t',
  )
  expect(await verdictOn(json)).toMatchObject({ errors: [], warnings: [], definition: { name: 'a', start: 'e' } })
  const { errors } = await verdictOn(json.replace('"succeed"', '"done"'))
  expect(errors).toMatchObject([{ code: 'SHAPE-1', line: 12, column: 13 }])
})

test('a number in quotes is a text, and `yes` a word', async () => {
  const { definition } = await verdictOn(one("{ type: fail, errorCode: yes, reason: '1' }"))
  expect(definition?.states['one']).toEqual({ type: 'fail', errorCode: 'yes', reason: '1' })
})

test('names that mean something to JavaScript are names like any other', async () => {
  const text = `${HEAD}spec:
  start: __proto__
  mappers: { constructor: { lang: jsonata, expr: '1' } }
  states:
    __proto__: { type: transform, transform: { mapperRef: constructor, target: { kind: var }, resultVar: __proto__ }, next: toString }
    toString: { type: succeed }
`
  const { definition, errors } = await verdictOn(text)
  expect(errors).toEqual([])
  expect(Object.keys(definition?.states ?? {})).toEqual(['__proto__', 'toString'])
  expect(Object.getPrototypeOf(definition?.states)).toBe(Object.prototype)
  const { errors: wrong } = await verdictOn(text.replace('    toString:', '    other:'))
  expect(wrong).toMatchObject([{ code: 'GRAPH-1', message: expect.stringContaining('"toString"') }])
  expect(({} as Record<string, unknown>)['type']).toBeUndefined()
})

describe('what a hostile text can do', () => {
  const KB = 1024
  test.each([
    ['brackets', '['.repeat(KB * KB)],
    ['dashes', '- '.repeat((KB * KB) / 2)],
    ['question marks', '? '.repeat((KB * KB) / 2)],
    ['levels of blocks', Array.from({ length: 1_400 }, (_, depth) => `${' '.repeat(depth)}a:`).join('\n')],
  ])('%s are nested too deeply, and found so at once', async (_, text) => {
    expect((await verdictOn(text)).errors).toMatchObject([{ code: 'SYNTAX-1', message: expect.stringContaining('64') }])
  })

  test('more than a mebibyte is not looked at', async () => {
    const { errors } = await verdictOn(`# ${'é'.repeat((KB * KB) / 2)}\n${spec('')}`)
    expect(errors).toMatchObject([
      { code: 'SYNTAX-1', line: 1, column: 1, message: expect.stringContaining('1048576 bytes') },
    ])
  })

  test('just below a mebibyte is', async () => {
    const text = spec('').replace('version: 1.0.0', `version: 1.0.0, description: ${'x'.repeat(KB * KB - 300)}`)
    expect(await verdictOn(text)).toMatchObject({ errors: [], definition: { name: 'a' } })
  })

  test('a hundred aliases are followed, and no more', async () => {
    const list = (count: number): string => `a: &x 1\nb: [${'*x, '.repeat(count)}]`
    expect((await verdictOn(list(100))).errors).not.toContainEqual(expect.objectContaining({ code: 'SYNTAX-1' }))
    expect((await verdictOn(list(101))).errors[0]).toMatchObject({
      code: 'SYNTAX-1',
      message: expect.stringContaining('100 aliases'),
    })
  })

  test('aliases that multiply are stopped', async () => {
    const text = ['a0: &a0 [x, x, x, x, x, x, x, x, x, x]']
    for (let level = 1; level < 9; level += 1)
      text.push(`a${String(level)}: &a${String(level)} [${`*a${String(level - 1)}, `.repeat(10)}]`)
    expect((await verdictOn(text.join('\n'))).errors[0]).toMatchObject({ code: 'SYNTAX-1' })
  })

  test('an alias to what it is part of is stopped', async () => {
    expect((await verdictOn('a: &a [*a]')).errors[0]).toMatchObject({ code: 'SYNTAX-1' })
  })

  test('thousands of subjourneys within each other are found at once', async () => {
    const all = Array.from(
      { length: 3_000 },
      (_, index) =>
        `    s${String(index)}: { start: a, states: { a: { type: subjourney, subjourney: { ref: s${String(index + 1)} }, next: c }, c: { type: succeed } } }`,
    )
    const text = `${one('{ type: subjourney, subjourney: { ref: s0 }, next: end }')}  subjourneys:\n${all.join('\n')}\n    s3000: { start: e, states: { e: { type: succeed } } }\n`
    expect((await verdictOn(text)).errors).toMatchObject([{ code: 'GRAPH-2', path: '/spec/subjourneys/s2984' }])
  })

  test('a large mapping is read in time', async () => {
    const keys = Array.from({ length: 20_000 }, (_, key) => `k${String(key)}: 1`).join('\n')
    const { errors } = await verdictOn(`${keys}\nk7: 2`)
    expect(errors).toMatchObject([{ code: 'SYNTAX-1', line: 20_001, column: 1 }])
  })

  test('subjourneys that refer to each other again and again are looked at once', async () => {
    const refs = (to: string): string =>
      `{ start: a, states: { a: { type: subjourney, subjourney: { ref: ${to} }, next: b }, b: { type: subjourney, subjourney: { ref: ${to} }, next: c }, c: { type: succeed } } }`
    const all = Array.from({ length: 15 }, (_, index) => `    s${String(index)}: ${refs(`s${String(index + 1)}`)}`)
    const text = `${one('{ type: subjourney, subjourney: { ref: s0 }, next: end }')}  subjourneys:\n${all.join('\n')}\n    s15: { start: e, states: { e: { type: succeed } } }\n`
    expect(await verdictOn(text)).toMatchObject({ errors: [], warnings: [] })
  })
})

test('whatever is wrong, it is reported at a place that is in the text', async () => {
  const texts = ERRORS.map(([, , , text]) => text.replace('§', ''))
  const cut = fc.tuple(
    fc.constantFrom(...texts),
    fc.nat(400),
    fc.nat(30),
    fc.string({ maxLength: 5, unit: 'binary-ascii' }),
  )
  await fc.assert(
    fc.asyncProperty(cut, async ([text, from, length, instead]) => {
      const broken = text.slice(0, from) + instead + text.slice(from + length)
      const { errors, warnings } = await verdictOn(broken)
      const lines = broken.split(/\n/)
      for (const { line, column } of [...errors, ...warnings]) {
        expect(line).toBeGreaterThanOrEqual(1)
        expect(line).toBeLessThanOrEqual(lines.length)
        expect(column).toBeGreaterThanOrEqual(1)
        expect(column).toBeLessThanOrEqual((lines[line - 1]?.length ?? 0) + 1)
      }
    }),
    { numRuns: 300 },
  )
})
