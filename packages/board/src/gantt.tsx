/** Steps as bars on one axis, against the budget of the whole. Time is the question, so there is no graph of nodes. */
import type { ComponentChildren, JSX } from 'preact'
import { length } from './time.ts'

export interface Step {
  readonly key: string
  readonly name: ComponentChildren
  readonly depth: number
  /** Since the start of the whole; null: not begun. */
  readonly fromMs: number | null
  readonly toMs: number | null
  /** Its own limit, counted from where it began. */
  readonly limitMs: number | null
  readonly isWaiting: boolean
  readonly words: ComponentChildren
}

const WIDTH = 1_000

export function Gantt({
  steps,
  nowMs,
  limitMs,
  label,
}: {
  steps: readonly Step[]
  nowMs: number | null
  limitMs: number | null
  label: string
}): JSX.Element {
  const spent = Math.max(1, nowMs ?? 0, ...steps.map(({ toMs }) => toMs ?? 0))
  // A budget far beyond what is spent would squash every bar: then the axis shows what is spent.
  const isFar = limitMs !== null && limitMs > spent * 10
  const whole = limitMs === null || isFar ? spent * 1.05 : Math.max(limitMs, spent) * 1.03
  const x = (ms: number): number => Math.round((Math.min(ms, whole) / whole) * WIDTH * 10) / 10
  return (
    <div class="scroll" role="region" aria-label={label} tabIndex={0}>
      <table class="gantt">
        <thead>
          <tr>
            <th scope="col">Step</th>
            <th scope="col">
              0 to {length(whole)}
              {limitMs === null
                ? ''
                : isFar
                  ? `, deadline after ${length(limitMs)} →`
                  : `, deadline after ${length(limitMs)}`}
            </th>
            <th scope="col">Took</th>
          </tr>
        </thead>
        <tbody>
          {steps.map((step) => {
            const end = step.toMs ?? nowMs ?? step.fromMs ?? 0
            return (
              <tr key={step.key}>
                <th scope="row" class={`in${String(Math.min(4, step.depth))}`}>
                  {step.name}
                </th>
                <td class="lane">
                  <svg viewBox={`0 0 ${String(WIDTH)} 16`} preserveAspectRatio="none" aria-hidden="true">
                    <rect class="track" width={WIDTH} height={16} />
                    {step.fromMs === null ? null : (
                      <>
                        {step.limitMs === null ? null : (
                          <rect
                            class="limitbar"
                            x={x(step.fromMs)}
                            y={1}
                            width={Math.max(1, x(step.fromMs + step.limitMs) - x(step.fromMs))}
                            height={14}
                          />
                        )}
                        <rect
                          class={step.isWaiting ? 'waitbar' : 'spanbar'}
                          x={x(step.fromMs)}
                          y={3}
                          width={Math.max(2, x(end) - x(step.fromMs))}
                          height={10}
                        />
                      </>
                    )}
                    {limitMs === null || isFar ? null : (
                      <line class="deadline" x1={x(limitMs)} x2={x(limitMs)} y1={0} y2={16} />
                    )}
                    {nowMs === null ? null : <line class="nowline" x1={x(nowMs)} x2={x(nowMs)} y1={0} y2={16} />}
                  </svg>
                </td>
                <td>{step.words}</td>
              </tr>
            )
          })}
        </tbody>
      </table>
    </div>
  )
}
