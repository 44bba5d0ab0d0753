export { duration, type Duration } from './durations.ts'
export * from './errors.ts'
export { RetryAfter } from './job/retry-after.ts'
export {
  timeout,
  type AttemptLimits,
  type LimitChanges,
  type Limits,
  type TimeoutMode,
  type TimeoutSugar,
} from './job/limits.ts'
export type { RetryPolicy } from './job/retry.ts'
export type { UniquePolicy } from './job/unique.ts'
export type { KeyedRateLimit, QueueLimit, QueueRateLimit, Rate, RateLimit } from './job/rate-limit.ts'
export type { AsJson } from './as-json.ts'
export { defineJob, type Job, type JobOptions } from './job/define-job.ts'
export { defineHandler, type Handler, type HandlerFunction } from './attempt/define-handler.ts'
export type { Context, ContextEnqueueOptions } from './attempt/context.ts'
export type { LogFields } from './attempt/job-log.ts'
export type { StepRetry, StepRun, StepRunOptions } from './attempt/steps.ts'
export type { AnnotationView, AuditEntryView, IssuedTokenView, TokenRole, TokenView } from './wire/access.ts'
export type { BulkAction, BulkItem, BulkOutcome, BulkPlan, BulkReport } from './wire/bulk.ts'
export type { CronView } from './wire/cron.ts'
export type {
  AtRiskView,
  CheckpointView,
  DeadLetterStats,
  JobAtRisk,
  JobErrorView,
  JobState,
  JobView,
  ProgressView,
  RetriesView,
} from './wire/jobs.ts'
export type { LimiterView, PoolView, QueueConfigView, QueueStats, QueueView, TypePolicyView } from './wire/queues.ts'
export type { SchemaVersionView, SchemaView } from './wire/schemas.ts'
export type { HealthView, Manifest, StatsView, TenantStats } from './wire/server.ts'
export type { DeliveryView, SubscriptionView, WebhookTestView } from './wire/webhooks.ts'
export type { DirectiveView, WorkerHealthView, WorkerView } from './wire/workers.ts'
export type {
  WorkflowProgressView,
  WorkflowState,
  WorkflowStepState,
  WorkflowStepView,
  WorkflowView,
} from './wire/workflows.ts'
export type { Log } from './log.ts'
export { Worker, type WorkerOptions, type WorkerSettings } from './worker/worker.ts'
export type { BatchFunction, BatchItem, BatchOptions, BatchResults } from './worker/batches.ts'
export type { AttemptEvent, EndedEvent, WorkerEvents, WorkerListener } from './worker/events.ts'
export type { WireError as ReportedError } from './attempt/report.ts'
export type { HandlerOptions } from './worker/handlers.ts'
export type { AttemptMiddleware } from './worker/attempt-middleware.ts'
export type { WorkerState } from './guard/protocol.ts'
export type { Fetch, InProcessServer } from './client/transport.ts'
export type {
  Connection,
  ConnectOptions,
  ConnectionSettings,
  Feature,
  HttpOptions,
  InProcessOptions,
} from './client/connection.ts'
export { Client, type ClientOptions, type JobChanges, type JobFilter, type JobRef } from './client/client.ts'
export type { JobHandle } from './client/job-handle.ts'
export type { JobMatch } from './client/job-filter.ts'
export type { BulkOptions, JobsMeant } from './client/bulk.ts'
export type { QueueConfig } from './client/queue-config.ts'
export type { PoolSpec } from './client/pools.ts'
export type { DeliveryFilter, SubscriptionChanges, SubscriptionSpec } from './client/webhooks.ts'
export { entry, type EnqueueEntry } from './job/entry.ts'
export type { EnqueueOptions, EnqueueRequest, ParentRef } from './job/enqueue-options.ts'
export { enqueueInTransaction, type Queryable, type TransactionOptions } from './client/transaction.ts'
export type { CronChanges, CronEntry, CronJobOptions, OverlapPolicy } from './client/crons.ts'
export {
  batch,
  chain,
  dag,
  group,
  type BatchCallbacks,
  type DagStep,
  type ListOptions,
  type WorkflowNode,
  type WorkflowTree,
} from './workflow/workflow.ts'
export type { WorkflowFilter, WorkflowOptions, WorkflowRef } from './client/workflows.ts'
export { jsonata, mapperRef, ExpressionText, type Mapper, type MapperRef } from './journey/journey-expression.ts'
export {
  state,
  type CallTarget,
  type Graph,
  type HttpCallOptions,
  type JobStateOptions,
  type JourneySchema,
  type JourneyState,
  type ParallelOptions,
  type StepOptions,
  type SubjourneyOptions,
  type TimerOptions,
} from './journey/journey-states.ts'
export {
  api,
  graph,
  journey,
  journeyRef,
  schema,
  type ApiSpec,
  type DefinitionJson,
  type JourneyDefinition,
  type JourneyRef,
  type JourneySpec,
  type ResiliencePolicy,
} from './journey/journey.ts'
export type {
  AnyDefinition,
  JourneyFilter,
  RequestParts,
  RunRef,
  StartArguments,
  StartOptions,
} from './client/journeys.ts'
export type {
  DefinitionFinding,
  DefinitionHead,
  DeployedDefinition,
  JourneyOutcome,
  JourneyStatus,
  RunHistory,
  RunningJourney,
  ScheduleView,
  StartedJourney,
  StoredDefinition,
  ValidatedDefinition,
} from './wire/journeys.ts'
export type { ApiCallOptions } from './client/apis.ts'
export type { EnqueueMiddleware } from './client/middleware.ts'
export type { CurfewEvent, EventFilter } from './client/events.ts'
export {
  verifyWebhook,
  WebhookError,
  type VerifyOptions,
  type WebhookEvent,
  type WebhookHeaders,
} from './client/webhook.ts'
export type { WaitOptions } from './client/result.ts'
export type { DeadLetterFilter, DeadLettersMeant, RetryChanges, Signalled, TypePolicy } from './client/operators.ts'
export type { Explanation, LimitsView, LineView as LogLineView, LogView, Plan, RunExplanation } from '@curfew/core'
