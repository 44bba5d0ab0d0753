/** `curfew journey …`: one word, one command. */
import { SettingsError } from '../settings.ts'
import { deploy } from './journey-deploy.ts'
import { EXIT } from './journey-exit.ts'
import type { Terminal } from './journey-flags.ts'
import { cancel, list, result, start, status, submit } from './journey-runs.ts'
import { simulate } from './journey-simulate.ts'
import { validate } from './journey-validate.ts'

/** Gives the exit code. */
type Command = (args: readonly string[], terminal: Terminal) => Promise<number>

const COMMANDS: Readonly<Record<string, Command>> = {
  validate,
  simulate,
  deploy,
  start,
  status,
  result,
  submit,
  cancel,
  list,
}

export const JOURNEY_HELP = [
  'Usage',
  '  curfew journey validate FILE...  what is wrong with definitions, and where; no server is needed',
  '  curfew journey deploy FILE...  hand definitions to a server, which then runs them',
  '  curfew journey simulate FILE   where the time of a run would go, state by state; nothing is sent anywhere',
  "    --set 'STATE=2s'             how long a state takes, by path or id; forever: until it is cut off; * for all",
  '    --choose STATE=NEXT[,NEXT]   where a choice goes, visit by visit; its default unless said',
  '    --root DIR                   where else to look for the files that openApiRef names',
  '    --run-default, --run-cap     the limits of the server it would run on [1d, 7d]',
  '  curfew journey start NAME      begin a run: --input JSON|@FILE, --version V, --wait [--timeout 30s];',
  '                                 --key TEXT or --id UUID: one run, however often it is started',
  '  curfew journey status ID       where it is, and what is left of its time',
  '  curfew journey result ID       how it ended: --wait [--timeout 30s]',
  '  curfew journey submit ID STEP  hand in what an open step waits for: --input JSON|@FILE',
  '  curfew journey cancel ID       end it',
  '  curfew journey list            runs, newest first: --name NAME, --phase PHASE, --tag TAG, --limit 50',
  '',
  'Of a server:  --url URL (CURFEW_URL) [http://127.0.0.1:8080], --token TOKEN (CURFEW_TOKEN)',
  'All of them:  --json prints what a program reads. @- is the standard input.',
  '',
  'Exit codes:  0 fine, and the run succeeded   1 refused, no answer, or a definition that is not right',
  '             2 wrong usage   3 the run failed or was cancelled   4 its time was up   5 it goes on',
].join('\n')

export async function runJourney(args: readonly string[], terminal: Terminal): Promise<number> {
  const [word, ...rest] = args
  if (word === undefined || word === 'help' || args.includes('--help') || args.includes('-h')) {
    terminal.write(JOURNEY_HELP)
    return EXIT.fine
  }
  const command = Object.hasOwn(COMMANDS, word) ? COMMANDS[word] : undefined
  if (command === undefined)
    throw new SettingsError(`Unknown command ${JSON.stringify(`journey ${word}`)}. See curfew journey --help.`)
  return command(rest, terminal)
}
