/**
 * The table of all commands: parsing, help, completion and docs/command-line.md are made from it. A command that needs the
 * server, a store or expressions loads them when it runs, so that all others start without them.
 */
import { DATA_COMMANDS } from './data-commands.ts'
import { DEMO } from './demo.ts'
import { DEV } from './dev.ts'
import { DOCTOR } from './doctor-command.ts'
import { EXPLAIN } from './explain.ts'
import type { Command, Table } from './frame/command.ts'
import { completionFor, SHELLS, type Shell } from './frame/completion.ts'
import { EXIT } from './frame/exit.ts'
import { JOURNEY_COMMANDS, JOURNEY_GROUP } from './journey.ts'
import { INCIDENT } from './operate/incident.ts'
import { JOB_COMMANDS, JOB_GROUPS } from './operate/jobs.ts'
import { QUEUE_COMMANDS, QUEUE_GROUPS } from './operate/queues.ts'
import { STATUS_COMMANDS } from './operate/status.ts'
import { EVENT_COMMANDS, EVENT_GROUP } from './operate/watch.ts'
import { WHAT_IF } from './operate/what-if.ts'
import { WORKER_COMMANDS, WORKER_GROUPS } from './operate/workers.ts'
import { SERVE } from './serve-command.ts'
import { TOP } from './top.ts'
import { TOKEN_COMMANDS, TOKEN_GROUP } from './token.ts'
import { SettingsError } from '../settings.ts'

const COMPLETION: Command = {
  name: 'completion',
  args: 'SHELL',
  summary: 'print a script that completes commands and options in bash, zsh or fish',
  more: ['Example: source <(curfew completion bash)'],
  choices: SHELLS,
  run({ flags, terminal }) {
    const shell = flags.names[0]
    if (!SHELLS.some((known) => known === shell))
      throw new SettingsError(`${JSON.stringify(shell)} is not a known shell. Shells are ${SHELLS.join(', ')}.`)
    terminal.write(completionFor(shell as Shell, TABLE))
    return EXIT.fine
  },
}

export const TABLE: Table = {
  groups: [...JOB_GROUPS, ...QUEUE_GROUPS, ...WORKER_GROUPS, EVENT_GROUP, JOURNEY_GROUP, TOKEN_GROUP],
  commands: [
    SERVE,
    DEV,
    DEMO,
    TOP,
    DOCTOR,
    ...STATUS_COMMANDS,
    WHAT_IF,
    INCIDENT,
    EXPLAIN,
    ...JOB_COMMANDS,
    ...QUEUE_COMMANDS,
    ...WORKER_COMMANDS,
    ...EVENT_COMMANDS,
    ...JOURNEY_COMMANDS,
    ...TOKEN_COMMANDS,
    ...DATA_COMMANDS,
    COMPLETION,
  ],
  sections: [
    ['Run a server', ['serve', 'dev', 'demo', 'config']],
    [
      'See what happens',
      ['top', 'status', 'at-risk', 'timeouts', 'what-if', 'incident', 'explain', 'events', 'doctor', 'open'],
    ],
    ['Jobs', ['jobs', 'dead', 'types']],
    ['What jobs run on', ['queues', 'limits', 'workers', 'cron', 'workflows', 'webhooks', 'journey']],
    ['Data and access', ['token', 'export', 'import', 'backup', 'migrate', 'check', 'completion']],
  ],
}
