import type { Command } from '../kernel/command.ts'
import type { Feature } from '../kernel/feature.ts'
import type { JobsContext } from '../jobs/context.ts'
import { admitFromInbox } from './inbox.ts'

/** Looks into the inbox with every sign of life, and at once when something is known to be in it. */
export function inbox(context: JobsContext): Feature {
  if (context.store.inbox === null) return {}
  /** A look is asked for, and has not begun. */
  let isAsked = false
  const look = (): void => {
    if (isAsked || context.closing.aborted) return
    isAsked = true
    const command: Command<void> = {
      name: 'inbox',
      run: (unit) => {
        // News from here on may be of rows that this look does not see.
        isAsked = false
        return admitFromInbox(context, unit)
      },
    }
    context.run(command).catch(() => {
      isAsked = false
    })
  }
  return {
    chore: { name: 'inbox', run: (unit) => admitFromInbox(context, unit) },
    onCommit: ({ moreInInbox }) => {
      if (moreInInbox) look()
    },
    onNews: (news) => {
      if (news === null || news.inbox) look()
    },
    onDurable: ({ refused }) => {
      for (const { id, error } of refused) {
        const fields = { jobId: id.slice(0, 64), code: error.code }
        if (error.code !== 'internal_error') context.log.warn(fields, 'a job in the inbox was refused')
        else context.log.error({ ...fields, err: error.cause }, 'inbox job failed with an internal error')
      }
    },
  }
}
