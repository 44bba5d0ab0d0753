/**
 * Layers around each enqueue, the first one outermost. A layer may look at the request, hand on another one, or answer
 * by itself. The id is there before the first layer: handing the same request on twice enqueues one job.
 */
import type { EnqueueRequest } from '../job/enqueue-options.ts'
import type { JobView } from '../wire/jobs.ts'

export type EnqueueMiddleware = (
  request: EnqueueRequest,
  /** With another request, or with the one that was given. */
  next: (request?: EnqueueRequest) => Promise<JobView>,
) => Promise<JobView>

export function throughLayers(
  layers: readonly EnqueueMiddleware[],
  request: EnqueueRequest,
  innermost: (request: EnqueueRequest) => Promise<JobView>,
): Promise<JobView> {
  const [first, ...rest] = layers
  if (first === undefined) return innermost(request)
  // A layer that throws before it promises anything is still a rejection.
  return Promise.resolve().then(() => first(request, (changed = request) => throughLayers(rest, changed, innermost)))
}
