/** An action on many jobs, which shows what it would do before it is confirmed. */
import type { JSX } from 'preact'
import { useEffect, useState } from 'preact/hooks'
import { ask } from '../api.ts'
import { act, count, Dialog, Facts } from '../ui.tsx'

export interface Bulk {
  readonly action: 'retry' | 'cancel' | 'delete'
  readonly what: object
}

interface Tried {
  readonly would_act_on: number
  readonly skipped: number
  readonly by_state: Readonly<Record<string, number>>
  readonly by_queue: Readonly<Record<string, number>>
}

/** Says what would be done before anything is. */
export function BulkDialog({ bulk: { action, what }, onClose }: { bulk: Bulk; onClose: () => void }): JSX.Element {
  const [tried, setTried] = useState<Tried | null>(null)
  const [problem, setProblem] = useState<string | null>(null)
  const path = `/ojs/v1/admin/jobs/bulk/${action}`
  useEffect(() => {
    ask<Tried>('POST', path, { ...what, dry_run: true }).then(setTried, (error: unknown) => {
      setProblem(error instanceof Error ? error.message : 'The server does not answer.')
    })
  }, [])
  const many = tried?.would_act_on ?? 0
  return (
    <Dialog
      title={`${action[0]?.toUpperCase() ?? ''}${action.slice(1)} jobs`}
      confirm={many === 0 ? null : `${action} ${count(many)}`}
      isDanger={action !== 'retry'}
      onConfirm={() => act(`Done: ${action} of ${count(many)}.`, () => ask('POST', path, { ...what, confirm: true }))}
      onClose={onClose}
    >
      {problem === null ? null : <p class="trouble">{problem}</p>}
      {tried === null && problem === null ? <p>Finding the jobs that this affects…</p> : null}
      {tried === null ? null : (
        <>
          <p>
            {many === 0
              ? 'This would affect no job'
              : `This would affect ${count(many)} ${many === 1 ? 'job' : 'jobs'}`}
            {tried.skipped === 0 ? '.' : `; ${count(tried.skipped)} cannot be ${PAST[action]} as they are.`}
          </p>
          <Facts
            of={[
              ['By state', numbers(tried.by_state)],
              ['By queue', numbers(tried.by_queue)],
            ]}
          />
        </>
      )}
    </Dialog>
  )
}

const PAST = { retry: 'retried', cancel: 'cancelled', delete: 'deleted' } as const

function numbers(by: Readonly<Record<string, number>>): string {
  const parts = Object.entries(by).map(([name, value]) => `${name} ${count(value)}`)
  return parts.length === 0 ? 'none' : parts.join(', ')
}
