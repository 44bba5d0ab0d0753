export * from './clock.ts'
export * from './fake-clock.ts'
export * from './seeded-random.ts'
export * from './ids.ts'
export * from './errors.ts'
export * from './durations.ts'
export * from './shape.ts'
export * from './json-text.ts'
export * from './job.ts'
export * from './doc.ts'
export * from './worker.ts'
export * from './limits.ts'
export * from './limiter.ts'
export * from './rate-limit.ts'
export * from './tenant.ts'
export * from './policies.ts'
export * from './backpressure.ts'
export * from './deadlines.ts'
export * from './retry.ts'
export * from './events.ts'
export * from './failures.ts'
export * from './life.ts'
export * from './lifecycle.ts'
export * from './unique.ts'
export * from './bulk.ts'
export * from './envelope.ts'
export * from './render.ts'
export * from './webhook.ts'
export * from './workflow.ts'
export * from './workflow-request.ts'
export * from './workflow-flow.ts'
export * from './workflow-view.ts'
export * from './journey.ts'
export * from './journey-run.ts'
export * from './journey-reader.ts'
export * from './journey-registry.ts'
export * from './journey-faults.ts'
export * from './interpolation.ts'
export * from './journey-call.ts'
export * from './journey-events.ts'
export * from './journey-view.ts'
export * from './journey-explain.ts'
export * from './journey-steps.ts'
export * from './journey-assumptions.ts'
export * from './journey-plan.ts'
export { graphOf, handedOn, locate, stateOf, type Located } from './journey-frames.ts'
export {
  awaitedJobs,
  beginCompensation,
  beginRun,
  cancelledRun,
  endRun,
  expireRun,
  failure as runFailure,
  isEndOfRun,
  jobEnded,
  openStep,
  submitted,
  wantsCompensation,
  type NewRun,
  type TimePassed,
} from './journey-life.ts'
export { callTimeout, dueOf as timerDueAt } from './journey-states.ts'
export { documentFor, isData, memberOf, withAttributes } from './journey-values.ts'
export * from './journey-walk.ts'
export * from './journey-start.ts'
export * from './journey-keeper.ts'
export * from './json-schema.ts'
export * from './schema-registry.ts'
export * from './pool.ts'
export * from './plan.ts'
export * from './explain.ts'
export * from './at-risk.ts'
export * from './zones.ts'
export * from './schedule.ts'
export * from './cron.ts'
export * from './cron-envelope.ts'
