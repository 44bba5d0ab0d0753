/** What --help prints, from the settings themselves. */
import { formatDuration } from '@curfew/core'
import { envOf, flagOf, SETTINGS } from '../settings.ts'

const GROUPS = {
  server: 'Server',
  limits: 'Limits (defaults and caps)',
  workers: 'Workers',
  retention: 'Retention',
  expressions: 'Expressions in journeys',
} as const

const WORDS = { text: 'TEXT', whole: 'N', duration: 'LENGTH', flag: '', choice: '' } as const

export function helpText(version: string): string {
  const lines = [
    `curfew ${version}: a job and workflow server in which nothing runs past its deadline`,
    '',
    'Usage',
    '  curfew serve [flags]     start the server',
    '  curfew config [flags]    print the effective configuration (secrets hidden) and where each value comes from',
    '  curfew export [FILE|-] [flags]',
    '                           write all data as JSON lines; stop the server first',
    '  curfew import [FILE|-] [flags]',
    '                           load an export into an empty data file or database',
    '  curfew migrate [flags]   migrate the data without starting the server; --contract also removes what only',
    '                           servers of older versions need',
    '  curfew check [FILE] [flags]',
    '                           look for damage in a data file; reads only, also while a server has it open',
    '  curfew explain ID        where the time of a job went, which limits hold it, and what happens next; see curfew explain --help',
    '  curfew journey COMMAND   journeys: validate, simulate, deploy, start, status, result, submit, cancel, list; see curfew journey --help',
    '  curfew token COMMAND     tokens of a server: create, list, rotate, revoke; see curfew token --help',
    '  curfew --help | --version',
    '',
    'Every flag can also be set in the environment (--log-level as CURFEW_LOG_LEVEL; a variable with another name is shown',
    'beside its flag) and in a YAML or JSON file (--config FILE). Flags win over the environment, the environment over the',
    'file. Durations: 250ms, 30s, 5m, 1h30m, 7d.',
    '',
    '  --config FILE            configuration file (CURFEW_CONFIG)',
  ]
  for (const [group, title] of Object.entries(GROUPS)) {
    lines.push('', title)
    for (const setting of SETTINGS.filter((known) => known.group === group)) {
      const value =
        setting.kind === 'flag'
          ? ''
          : ` ${setting.kind === 'choice' ? (setting.choices?.join('|') ?? '') : WORDS[setting.kind]}`
      const fallback =
        setting.byDefault === null || setting.kind === 'flag'
          ? ''
          : ` [${setting.kind === 'duration' ? formatDuration(Number(setting.byDefault)) : String(setting.byDefault)}]`
      const variable = setting.flag === undefined ? '' : ` (${envOf(setting)})`
      lines.push(`  ${(flagOf(setting) + value).padEnd(50)} ${setting.help}${fallback}${variable}`)
    }
  }
  lines.push(
    '',
    `Example: CURFEW_TOKEN=secret curfew serve --host 0.0.0.0 --data /var/lib/curfew   (${envOf({ key: 'token' })} keeps the token out of ps)`,
  )
  return lines.join('\n')
}
