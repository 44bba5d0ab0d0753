/** Log lines as workers send them (`x_log`). Lines that are too long or too many are cut; a wrong form is refused. */
import { MAX_LOG_NUMBER, type LogBatch, type LogLine } from '../../job/log.ts'
import { iso } from '../../time/clock.ts'
import { anyObject, flag, list, named, object, text, whole } from '../shape.ts'
import { TIMESTAMP_SHAPE } from './job-filter.ts'

const LINE_SHAPE = object(
  { at: TIMESTAMP_SHAPE, message: text(), fields: anyObject(), cut: flag() },
  { required: ['message'] },
)

export const LOG_SHAPE = named(
  'LogLines',
  object({ from: whole(0, MAX_LOG_NUMBER), lines: list(LINE_SHAPE) }, { required: ['lines'] }),
)

export function logBatchOf(read: ReturnType<typeof LOG_SHAPE.read> | undefined): LogBatch | null {
  if (read === undefined) return null
  return {
    from: read.from ?? null,
    lines: read.lines.map(({ at, message, fields, cut }) => ({
      at: at ?? null,
      message,
      ...(fields === undefined ? {} : { fields }),
      ...(cut === true ? { isCut: true as const } : {}),
    })),
  }
}

export interface LogOnWire {
  readonly from: number
  readonly lines: readonly {
    readonly at: string
    readonly message: string
    readonly fields?: Readonly<Record<string, unknown>>
    readonly cut?: true
  }[]
}

/** What a worker sends. */
export function writeLog(from: number, lines: readonly LogLine[]): LogOnWire {
  return {
    from,
    lines: lines.map(({ at, message, fields, isCut }) => ({
      at: iso(at),
      message,
      ...(fields === undefined ? {} : { fields }),
      ...(isCut === true ? { cut: true as const } : {}),
    })),
  }
}
