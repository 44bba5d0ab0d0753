/** What goes to the thread that judges a definition, and what it answers. */
import { CONFIG_PATH, type RunLimits } from '@curfew/core'
import type { Verdict } from '../engine/definitions/verdict.ts'

export interface ToJudge {
  readonly text: string
  readonly limits: RunLimits
  /** The text is that of a document with a deployed version: it is only read again. */
  readonly isDeployed: boolean
}

/** Places where something may be found wrong later, by code that knows what else is deployed. */
export const LATER = ['/metadata/name', '/spec/bindings/http/route/path', CONFIG_PATH] as const

export interface Told extends Omit<Verdict, 'locate'> {
  readonly places: Readonly<Record<string, { readonly line: number; readonly column: number }>>
}
