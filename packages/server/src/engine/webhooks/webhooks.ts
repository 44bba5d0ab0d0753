/**
 * Webhooks at work, on each server. Two loops, both asleep until there is a subscription:
 *
 *   the log ─→ pump: what does each subscription want of it? ─→ one job per event and subscription ─┐
 *                     (jobs and cursor in one transaction)                                          │
 *   endpoint ←─ deliveries: claimed, sent and reported like any job, by the server itself ←─────────┘
 *
 * The cursor of a subscription is in its document; a server that moves it holds that document. So any number of servers may pump the
 * same log: each event becomes a job once. A server that finds nothing to want keeps its place in memory only, and
 * writes it down now and then. Deliveries are handed out under leases, so each attempt is made by one server; if that
 * dies, the attempt runs into its timeout and the next one follows.
 *
 * A server learns of subscriptions when it starts, when one is made here, and when the document of one that no server has
 * looked after for five minutes wakes here.
 */
import {
  isOwnEvent,
  nextLookAt,
  notFound,
  OjsError,
  readDoc,
  renderEvent,
  uuidV7,
  verdictOnAnswer,
  wants,
  WEBHOOK,
  WEBHOOK_QUEUE,
  type DeliveryVerdict,
  type Job,
  type Webhook,
} from '@curfew/core'
import type { StoredEvent } from '../../store/store.ts'
import type { Command } from '../kernel/command.ts'
import { onAbort } from '../kernel/until.ts'
import { deliveryCall, deliveryId, deliveryRequest, failDelivery, fenceOf, readDelivery } from './delivery.ts'
import { admitJob, needsOf } from '../jobs/enqueue.ts'
import type { WebhooksContext } from './context.ts'
import type { Announcement } from '../kernel/context.ts'
import { fetchJobs } from '../jobs/fetch.ts'
import { CallFailed, CallRefused, type OutgoingAnswer, type OutgoingCall } from '../outgoing.ts'
import { ack, nack } from '../jobs/reports.ts'
import { retryDelay } from '../kernel/retry-delay.ts'
import type { Unit } from '../kernel/unit.ts'

/** Deliveries under way at once, on one server. */
const MAX_DELIVERIES = 32
/** Polls are woken; this is only how long one is kept. */
const POLL_MS = 600_000
const CHUNK = 200
/** A cursor is written down at least every so many events, wanted or not. */
const MAX_UNWRITTEN = 1_000
const MAX_SUBSCRIPTIONS = 10_000
const MAX_SHOWN = 1_000

export class Webhooks {
  readonly #context: WebhooksContext
  /** Up to where the log was looked at for each subscription; it may be ahead of what is written down. */
  readonly #looked = new Map<string, number>()
  readonly #underway = new Set<Promise<void>>()
  #unlisten: (() => void) | null = null
  #pumping: Promise<void> | null = null
  #again = false
  #delivering: Promise<void> | null = null

  constructor(context: WebhooksContext) {
    this.#context = context
  }

  /** Finds out whether there is anything to do at all. */
  async open(): Promise<void> {
    const { store } = this.#context
    const counts = (await store.countsOf([WEBHOOK_QUEUE])).get(WEBHOOK_QUEUE)
    const waiting = counts === undefined ? 0 : counts.available + counts.retryable + counts.scheduled + counts.active
    if ((await store.docs(WEBHOOK.kind, '', null, 1)).length > 0) this.learn()
    else if (waiting > 0) this.#deliver()
  }

  /** There is a subscription. */
  learn(): void {
    if (this.#context.closing.aborted) return
    this.#unlisten ??= this.#context.listen((told) => {
      if (isWorthALook(told)) this.#pump()
    })
    this.#pump()
    this.#deliver()
  }

  /** The log is being read, or an endpoint is being called. */
  get isBusy(): boolean {
    return this.#pumping !== null || this.#underway.size > 0
  }

  lookedUpTo(id: string): number {
    return this.#looked.get(id) ?? 0
  }

  /** Everything was removed (test bench only). */
  forget(): void {
    this.#looked.clear()
  }

  /** The server is stopping: what is under way is handed back. */
  async close(): Promise<void> {
    this.#unlisten?.()
    this.#unlisten = null
    await this.#pumping
    await this.#delivering
    await Promise.all(this.#underway)
  }

  // ---- The pump ----

  #pump(): void {
    this.#again = true
    this.#pumping ??= this.#pumpAll().finally(() => {
      this.#pumping = null
    })
  }

  async #pumpAll(): Promise<void> {
    while (this.#again && !this.#context.closing.aborted) {
      this.#again = false
      try {
        if (await this.#pumpChunk()) this.#again = true
      } catch (error) {
        // The store cannot serve at the moment, and says so itself; or it is a fault of ours.
        if (!(error instanceof OjsError))
          this.#context.log.error({ err: error }, 'reading the event log for webhooks failed; trying again')
        await retryDelay(this.#context)
        this.#again = true
      }
    }
  }

  /** Looks at the next part of the log for everybody; true when there is more. */
  async #pumpChunk(): Promise<boolean> {
    const { store } = this.#context
    const before = await this.#subscriptions()
    if (before.length === 0) {
      this.#unlisten?.()
      this.#unlisten = null
      this.#looked.clear()
      return false
    }
    const from = Math.min(...before.map((webhook) => this.#placeOf(webhook)))
    const { first, last } = await store.eventBounds()
    const events = from < last ? await store.eventsAfter(from, CHUNK) : []
    if (events.length === 0 && from + 1 >= first) return false
    // Asked for again after the events: who changed a subscription before an event happened has it served as changed.
    for (const webhook of await this.#subscriptions()) {
      const place = this.#placeOf(webhook)
      if (place + 1 < first) await this.#skip(webhook, place, first)
      const fresh = events.filter(({ sequence }) => sequence > place)
      const upTo = fresh.at(-1)?.sequence
      if (upTo === undefined) continue
      if (fresh.some((event) => wants(webhook, event)) || upTo - webhook.cursor >= MAX_UNWRITTEN)
        await this.#context.run(serve(this.#context, webhook.id, fresh))
      this.#looked.set(webhook.id, upTo)
    }
    return events.length === CHUNK
  }

  /** Those that are turned off want nothing, and delay no other. */
  async #subscriptions(): Promise<Webhook[]> {
    const docs = await this.#context.store.docs(WEBHOOK.kind, '', null, MAX_SUBSCRIPTIONS)
    return docs.map((doc) => readDoc<Webhook>(doc)).filter(({ active }) => active)
  }

  #placeOf({ id, cursor }: Webhook): number {
    return Math.max(cursor, this.#looked.get(id) ?? 0)
  }

  async #skip({ id }: Webhook, place: number, first: number): Promise<void> {
    this.#context.log.warn(
      { subscription: id, after: place, before: first },
      'events were pruned before a webhook subscription had seen them; it goes on with what is left',
    )
    await this.#context.run(moveTo(id, first - 1))
    this.#looked.set(id, first - 1)
  }

  // ---- Deliveries ----

  #deliver(): void {
    if (this.#context.closing.aborted) return
    this.#delivering ??= this.#deliverAll().finally(() => {
      this.#delivering = null
    })
  }

  async #deliverAll(): Promise<void> {
    const { closing } = this.#context
    while (!closing.aborted) {
      if (this.#underway.size >= MAX_DELIVERIES) {
        await Promise.race(this.#underway)
        continue
      }
      for (const job of await this.#claim(MAX_DELIVERIES - this.#underway.size)) {
        const delivery: Promise<void> = this.#attempt(job).finally(() => this.#underway.delete(delivery))
        this.#underway.add(delivery)
      }
    }
  }

  async #claim(count: number): Promise<Job[]> {
    const { closing } = this.#context
    const request = {
      queues: [WEBHOOK_QUEUE],
      count,
      workerId: null,
      visibilityMs: null,
      waitMs: POLL_MS,
      tenant: null,
    }
    try {
      return (await fetchJobs(this.#context, request, closing)).map(({ job }) => job)
    } catch (error) {
      if (!(error instanceof OjsError))
        this.#context.log.error({ err: error }, 'webhook deliveries could not be fetched')
      await retryDelay(this.#context)
      return []
    }
  }

  /** One attempt of one delivery. If its end cannot be reported, it runs into its timeout. */
  async #attempt(job: Job): Promise<void> {
    try {
      await this.#attemptAndReport(job)
    } catch (error) {
      if (!(error instanceof OjsError))
        this.#context.log.error(
          { jobId: job.id, err: error },
          'webhook delivery failed with an internal error; trying again',
        )
    }
  }

  async #attemptAndReport(job: Job): Promise<void> {
    const context = this.#context
    const delivery = readDelivery(job)
    const { subscriptionId, eventType } = delivery
    const doc = await context.read((reads) => reads.doc(WEBHOOK.kind, subscriptionId))
    const webhook = doc === null ? null : readDoc<Webhook>(doc)
    if (webhook === null || !webhook.active) {
      const message = webhook === null ? 'the subscription was deleted' : 'the subscription is not active'
      await context.run(failDelivery(context, job, { type: 'webhook_inactive', code: 'DISCARD', message }))
      return
    }
    const { verdict, answer, tookMs } = await this.#send(webhook, (signal) =>
      deliveryCall(webhook, deliveryId(job), delivery, signal, context.now()),
    )
    if (verdict === null) {
      await context.run(nack(context, { jobId: job.id, ...fenceOf(job), error: null, requeue: true }))
      return
    }
    context.meters.delivered(eventType, verdict.kind === 'delivered' ? 'success' : 'failed', tookMs)
    if (verdict.kind === 'delivered') {
      const result = JSON.stringify({ status: answer?.status, duration_ms: tookMs })
      await context.run(ack(context, { jobId: job.id, ...fenceOf(job), result }))
      return
    }
    const details =
      answer === null
        ? { duration_ms: tookMs }
        : { status: answer.status, duration_ms: tookMs, response: answer.body.slice(0, MAX_SHOWN) }
    const error = { type: 'webhook_failed', message: verdict.reason, retryable: verdict.kind === 'retry', details }
    await context.run(
      failDelivery(context, job, error, {
        delayMs: verdict.kind === 'retry' ? verdict.delayMs : null,
        disable: verdict.kind === 'gone' ? subscriptionId : null,
      }),
    )
  }

  /** Verdict null: the server is stopping, and it is not known what became of it. */
  async #send(webhook: Webhook, callWith: (signal: AbortSignal) => OutgoingCall): Promise<Sent> {
    const { host, closing, send } = this.#context
    const controller = new AbortController()
    const abort = (): void => {
      controller.abort()
    }
    const begun = host.monotonicMs()
    const timer = host.setTimer(webhook.timeoutMs, abort)
    const unhook = onAbort([closing], abort)
    let verdict: DeliveryVerdict | null
    let answer: OutgoingAnswer | null = null
    try {
      answer = await send(callWith(controller.signal))
      verdict = verdictOnAnswer(answer.status, answer.headers['retry-after'], this.#context.now())
    } catch (error) {
      if (closing.aborted) verdict = null
      else if (error instanceof CallRefused) verdict = { kind: 'dead', reason: error.message }
      else if (controller.signal.aborted)
        verdict = { kind: 'retry', delayMs: null, reason: `no answer within ${String(webhook.timeoutMs / 1000)} s` }
      else if (error instanceof CallFailed) verdict = { kind: 'retry', delayMs: null, reason: error.message }
      else throw error
    } finally {
      timer.cancel()
      unhook()
    }
    return { verdict, answer, tookMs: Math.round(host.monotonicMs() - begun) }
  }

  /** A synthetic event, sent at once and only once (OJS webhooks §6.6). */
  async test(id: string): Promise<Sent> {
    const context = this.#context
    const doc = await context.read((reads) => reads.doc(WEBHOOK.kind, id))
    if (doc === null) throw notFound('subscription', id)
    const webhook = readDoc<Webhook>(doc)
    const now = context.now()
    const event = renderEvent({
      sequence: 0,
      type: 'webhook.test',
      at: now,
      subject: id,
      data: JSON.stringify({ subscription_id: id }),
    })
    const delivery = `del_${uuidV7(now, context.random)}`
    return this.#send(webhook, (signal) =>
      deliveryCall(webhook, delivery, { eventType: 'webhook.test', event }, signal, now),
    )
  }
}

export interface Sent {
  readonly verdict: DeliveryVerdict | null
  readonly answer: OutgoingAnswer | null
  readonly tookMs: number
}

/** Deliveries cause events too, which are never delivered. */
function isWorthALook({ events }: Announcement): boolean {
  return events.some((event) => !isOwnEvent(event))
}

/** Makes the jobs for what the subscription wants, and moves its cursor past them: both or neither. */
function serve(context: WebhooksContext, id: string, events: readonly StoredEvent[]): Command<void> {
  return {
    name: 'webhooks',
    needs: { docs: [{ kind: WEBHOOK.kind, id }] },
    size: events.length,
    run: async (unit) => {
      const webhook = unit.doc(WEBHOOK, id)
      if (webhook?.active !== true) return
      // Another server may have been here first.
      const fresh = events.filter(({ sequence }) => sequence > webhook.cursor)
      const last = fresh.at(-1)
      if (last === undefined) return
      const wanted: StoredEvent[] = []
      for (const event of fresh) {
        if (wants(webhook, event) && (webhook.tenant === null || (await isOf(unit, webhook.tenant, event))))
          wanted.push(event)
      }
      const requests = wanted.map((event) => deliveryRequest(webhook, event))
      await unit.load(needsOf(requests))
      for (const request of requests)
        await admitJob(context, unit, request, { owner: { kind: 'webhook', id, step: null } })
      unit.putDoc(WEBHOOK, id, { ...webhook, cursor: last.sequence, lookAt: nextLookAt(unit.now) })
    },
  }
}

/** Events of a job are its tenant's; what belongs to no job, or to one that is gone, belongs to no tenant (OJS webhooks §9.3). */
async function isOf(unit: Unit, tenant: string, { jobType, subject }: StoredEvent): Promise<boolean> {
  return jobType !== null && (await unit.seeJob(subject))?.tenant === tenant
}

function moveTo(id: string, cursor: number): Command<void> {
  return {
    name: 'webhooks',
    needs: { docs: [{ kind: WEBHOOK.kind, id }] },
    run: (unit) => {
      const webhook = unit.doc(WEBHOOK, id)
      if (webhook !== null && webhook.cursor < cursor) unit.putDoc(WEBHOOK, id, { ...webhook, cursor })
    },
  }
}

/** No server has written this subscription for minutes: this server looks after it from here on, if it did not before. */
export function wakeWebhook(context: WebhooksContext, unit: Unit, id: string): void {
  const webhook = unit.doc(WEBHOOK, id)
  if (webhook === null) return
  const cursor = Math.max(webhook.cursor, context.webhooks.lookedUpTo(id))
  unit.putDoc(WEBHOOK, id, { ...webhook, cursor, lookAt: nextLookAt(unit.now) })
  context.host.defer(() => {
    context.webhooks.learn()
  })
}
