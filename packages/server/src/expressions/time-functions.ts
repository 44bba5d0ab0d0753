/**
 * Functions on time, and those that write and read by pictures. Time is the engine's: `$now` and `$millis` are the instant
 * at which the evaluation was asked for. A date and time without a zone is UTC, not the zone of the machine.
 */
import { ExpressionError } from '../engine/expressions.ts'
import type { Body } from './calls.ts'
import { NATIVES } from './natives.ts'
import {
  checkDatePicture,
  checkInstant,
  checkInteger,
  checkLength,
  checkNumberPicture,
  checkParsePicture,
  checkTimezone,
} from './pictures.ts'

function fromMillis(ms: number | undefined, picture?: string, timezone?: string): unknown {
  if (ms === undefined) return undefined
  checkInstant(ms)
  checkTimezone(timezone)
  if (picture !== undefined) checkDatePicture(picture)
  return NATIVES.get('fromMillis')?.implementation(ms, picture, timezone)
}

const WITHOUT_ZONE = /T[0-9:.]+$/

export const TIME_FUNCTIONS: Readonly<Record<string, Body>> = {
  now: (call, picture?: string, timezone?: string) => fromMillis(call.evaluation.nowMs, picture, timezone),
  millis: (call) => call.evaluation.nowMs,
  fromMillis: (_call, ms?: number, picture?: string, timezone?: string) => fromMillis(ms, picture, timezone),
  toMillis(call, text?: string, picture?: string) {
    if (text === undefined) return undefined
    checkLength('The date', text)
    if (picture !== undefined) {
      checkParsePicture(picture, text)
      return call.native(text, picture)
    }
    return call.native(WITHOUT_ZONE.test(text) ? `${text}Z` : text)
  },
  formatInteger(call, value: number | undefined, picture: string) {
    if (value !== undefined) checkInteger(value, picture)
    return call.native(value, picture)
  },
  parseInteger(call, text: string | undefined, picture: string) {
    if (text !== undefined) checkLength('The number', text)
    checkInteger(0, picture)
    return call.native(text, picture)
  },
  formatNumber(call, value: number | undefined, picture: string, options?: unknown) {
    checkNumberPicture(picture, options)
    return call.native(value, picture, options)
  },
  eval() {
    throw new ExpressionError('JN_UNSUPPORTED_SYNTAX', '$eval is not supported.')
  },
}
