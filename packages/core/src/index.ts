export * from './time/clock.ts'
export * from './time/sums.ts'
export * from './time/fake-clock.ts'
export * from './seeded-random.ts'
export * from './ids.ts'
export * from './errors.ts'
export {
  formatDuration,
  formatIsoDuration,
  MAX_DURATION_MS,
  type NamedMoment,
  parseDuration,
  parseIsoDuration,
  parseMoment,
  readableDuration,
} from './time/durations.ts'
export * from './wire/time-schemas.ts'
export * from './wire/shape.ts'
export * from './wire/json/json-text.ts'
export * from './wire/json/json-pieces.ts'
export * from './wire/few-fields.ts'
export * from './wire/read-share.ts'
export * from './job/job.ts'
export * from './doc.ts'
export * from './job/worker.ts'
export * from './job/limits.ts'
export * from './job/settle.ts'
export * from './wire/job/limits.ts'
export * from './job/limiter.ts'
export * from './wire/job/rate-limit.ts'
export * from './job/rate-limit.ts'
export * from './wire/tenant.ts'
export * from './wire/job/policies.ts'
export * from './job/policies.ts'
export {
  type Bound,
  depthOf,
  excess,
  isCrossed,
  type Pressure,
  pressureOf,
  queueFull,
  type Strategy,
} from './job/backpressure.ts'
export * from './wire/job/backpressure.ts'
export * from './job/deadlines.ts'
export * from './job/liveness.ts'
export * from './job/due.ts'
export * from './job/lateness.ts'
export * from './time/budget.ts'
export * from './job/retry.ts'
export * from './wire/job/retry.ts'
export * from './events.ts'
export * from './event-retention.ts'
export * from './wire/events.ts'
export * from './wire/job/failure.ts'
export {
  type LimitEnding,
  readTimeoutReport,
  type ReportedError,
  TIMEOUT_KINDS,
  type TimeoutKind,
  type Uptime,
} from './job/failures.ts'
export * from './job/life.ts'
export * from './wire/job/life.ts'
export { type LimitKind, type Moment, type Retention, type Step, type Transition } from './job/lifecycle/transition.ts'
export * from './job/lifecycle/admit.ts'
export * from './job/lifecycle/start.ts'
export * from './job/lifecycle/fence.ts'
export * from './job/lifecycle/report.ts'
export * from './job/lifecycle/expire.ts'
export * from './job/lifecycle/change.ts'
export {
  type Dimension,
  duplicateError,
  type OnConflict,
  type Unique,
  type UniquePolicy,
  type UniqueVerdict,
  uniqueVerdict,
} from './job/unique.ts'
export * from './wire/job/unique.ts'
export { canonical } from './wire/json/canonical.ts'
export * from './job/job-filter.ts'
export { type ErrorKeys, errorKeys, keyOf, NO_ERROR, tagKeys } from './wire/job/job-keys.ts'
export * from './wire/job/job-filter.ts'
export * from './wire/job/enqueue.ts'
export { EnqueueMemory } from './wire/job/enqueue-terms.ts'
export {
  ENQUEUE_SHAPE,
  ID_SHAPE,
  isJobField,
  JOB_FIELDS,
  MOMENT_SHAPE,
  OPTION_NAMES,
  OPTION_SHAPES,
  OPTIONS_SHAPE,
  PARENT_SHAPE,
  QUEUE_SHAPE,
  readParent,
  STARTED_AT_SHAPE,
  TYPE_SHAPE,
  WORKER_ID_SHAPE,
} from './wire/job/job-shapes.ts'
export * from './job/reserved.ts'
export { nearMissesInOptions } from './wire/job/enqueue-names.ts'
export * from './wire/job/enqueue-many.ts'
export { scheduledLike, withoutExpiry, withSchedule } from './wire/job/given.ts'
export * from './wire/job/patch.ts'
export * from './wire/json/merged-text.ts'
export { Redaction, REDACTED } from './wire/json/redact.ts'
export * from './wire/names/near-miss.ts'
export * from './wire/names/near-miss-words.ts'
export * from './wire/names/aliases.ts'
export * from './wire/job/render.ts'
export * from './wire/job/job-answer.ts'
export * from './webhook/webhook.ts'
export * from './wire/webhook.ts'
export * from './workflow/workflow.ts'
export * from './wire/workflow/workflow-request.ts'
export { MAX_NESTING, MAX_DEPENDENCIES, MAX_JOBS, WORKFLOW_SHAPE } from './wire/workflow/workflow-shapes.ts'
export * from './workflow/flow.ts'
export type { Made, Walk, Wish } from './workflow/steps-in-hand.ts'
export { MAX_PARENT_RESULTS, type Results } from './workflow/results.ts'
export { endingOf, type StepEnding } from './workflow/step-ending.ts'
export * from './wire/workflow/workflow-answer.ts'
export { type ShownState, shownStates, type Tree, workflowProgress } from './workflow/view.ts'
export * from './journey/definition.ts'
export * from './journey/run/run.ts'
export { surveyOf } from './journey/run/survey.ts'
export * from './journey/read/reader.ts'
export * from './journey/registry.ts'
export * from './journey/faults.ts'
export * from './journey/interpolation.ts'
export * from './journey/call.ts'
export * from './wire/journey-events.ts'
export * from './journey/view/view.ts'
export * from './journey/config.ts'
export * from './journey/api-key.ts'
export * from './journey/run/schedule.ts'
export * from './journey/view/next.ts'
export * from './journey/view/history.ts'
export * from './journey/view/explain.ts'
export * from './journey/run/steps.ts'
export * from './journey/plan/assumptions.ts'
export * from './journey/plan/plan.ts'
export { graphOf, handedOn, locate, remembersMoreThan, stateOf, type Located } from './journey/run/frames.ts'
export {
  awaitedJobs,
  beginCompensation,
  beginRun,
  cancelledRun,
  endRun,
  expireRun,
  failure as runFailure,
  isEndOfRun,
  jobsEnded,
  openStep,
  submitted,
  wantsCompensation,
  type NewRun,
  type TimePassed,
} from './journey/run/life.ts'
export { callTimeout, dueOf as timerDueAt } from './journey/run/states.ts'
export { documentFor, isData, memberOf, withAttributes } from './journey/run/values.ts'
export * from './journey/run/walk.ts'
export {
  type Ask,
  type Walked,
  type WalkTerms,
  type WantedCall,
  type WantedJob,
  type WantedSchedule,
} from './journey/run/walk-terms.ts'
export * from './journey/run/start.ts'
export * from './journey/run/run-owner.ts'
export * from './journey/limits.ts'
export * from './journey/run/repeats.ts'
export * from './schema/json-schema.ts'
export * from './schema/schema-registry.ts'
export * from './wire/schema.ts'
export * from './job/pool.ts'
export * from './wire/pool.ts'
export * from './job/plan.ts'
export * from './job/next.ts'
export { heldByLimit, type HeldBy } from './wire/job/held-by.ts'
export * from './job/timeline/clocks.ts'
export * from './job/timeline/foresee.ts'
export * from './job/timeline/timeline.ts'
export * from './job/timeline/timeline-model.ts'
export { asOf } from './job/timeline/replay.ts'
export { axisOf, type Axis } from './job/timeline/folds.ts'
export { lengthInWords, SOURCE_CHIPS, whoSet } from './job/timeline/timeline-words.ts'
export * from './wire/board-job.ts'
export * from './job/explain.ts'
export { type Span } from './job/explain-spans.ts'
export { type Ending } from './job/explain-endings.ts'
export * from './wire/job/retries.ts'
export * from './job/step.ts'
export * from './job/log.ts'
export * from './wire/job/log.ts'
export * from './wire/job/steps.ts'
export * from './job/at-risk.ts'
export * from './job/line.ts'
export * from './job/shares.ts'
export * from './wire/job/at-risk.ts'
export * from './series/sketch.ts'
export * from './series/tally.ts'
export * from './series/packed.ts'
export * from './series/view.ts'
export * from './series/forecast.ts'
export * from './series/what-if.ts'
export { add as addOutcome, countTimeout, countTransition, timeoutKindOf } from './series/count.ts'
export * from './time/zones.ts'
export * from './time/schedule.ts'
export * from './cron/cron.ts'
export * from './wire/cron-events.ts'
export * from './wire/cron.ts'
export * from './wire/cron-answer.ts'
export * from './access/roles.ts'
export * from './access/token.ts'
export * from './access/session.ts'
export * from './access/operator-action.ts'
export * from './access/annotation.ts'
export * from './wire/annotation.ts'
export * from './wire/incident.ts'
