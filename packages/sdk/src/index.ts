export { duration, type Duration } from './durations.ts'
export * from './errors.ts'
export { RetryAfter } from './client/retry-after.ts'
export {
  timeout,
  type AttemptLimits,
  type LimitChanges,
  type Limits,
  type TimeoutMode,
  type TimeoutSugar,
} from './limits.ts'
export type { RetryPolicy } from './client/retry.ts'
export type { UniquePolicy } from './client/unique.ts'
export type { KeyedRateLimit, QueueLimit, QueueRateLimit, Rate, RateLimit } from './client/rate-limit.ts'
export type { AsJson } from './as-json.ts'
export { defineJob, type Job, type JobOptions } from './define-job.ts'
export { defineHandler, type Handler, type HandlerFunction } from './define-handler.ts'
export type { Context, ContextEnqueueOptions } from './attempt/context.ts'
export type { LogFields } from './attempt/job-log.ts'
export type { StepRetry, StepRun, StepRunOptions } from './attempt/steps.ts'
export type {
  AnnotationView,
  AtRiskView,
  AuditEntryView,
  BulkAction,
  BulkItem,
  BulkOutcome,
  BulkPlan,
  BulkReport,
  CheckpointView,
  CronView,
  DeadLetterStats,
  DeliveryView,
  DirectiveView,
  HealthView,
  IssuedTokenView,
  JobAtRisk,
  JobErrorView,
  JobState,
  JobView,
  LimiterView,
  Manifest,
  PoolView,
  ProgressView,
  QueueConfigView,
  QueueStats,
  QueueView,
  RetriesView,
  SchemaVersionView,
  SchemaView,
  StatsView,
  SubscriptionView,
  TenantStats,
  TokenRole,
  TokenView,
  TypePolicyView,
  WebhookTestView,
  WorkerHealthView,
  WorkerView,
  WorkflowProgressView,
  WorkflowState,
  WorkflowStepState,
  WorkflowStepView,
  WorkflowView,
} from './wire.ts'
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
export { entry, type EnqueueEntry } from './client/batch.ts'
export type { EnqueueOptions, EnqueueRequest, ParentRef } from './client/enqueue-options.ts'
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
export type { WorkflowFilter, WorkflowOptions, WorkflowRef } from './workflow/workflows.ts'
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
} from './journey/journeys.ts'
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
} from './journey/journey-wire.ts'
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
