// Every row, in the order of the report.
import { GROWTH, KEPT, LIMITS } from './rows/itself.mjs'
import { BULK_1000, ENQUEUE_1, ENQUEUE_50, IDLE_LATENCY, MIXED, PROCESS_10, PROCESS_100 } from './rows/main.mjs'
import { BEATS, HTTP_50, MEMORY, OVERSHOOT, RESTART } from './rows/promise.mjs'

export const ROWS = [
  ENQUEUE_1,
  ENQUEUE_50,
  BULK_1000,
  PROCESS_10,
  PROCESS_100,
  IDLE_LATENCY,
  MIXED,
  HTTP_50,
  GROWTH,
  KEPT,
  LIMITS,
  OVERSHOOT,
  BEATS,
  MEMORY,
  RESTART,
]
