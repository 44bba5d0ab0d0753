/** What --help prints, from the table of commands and the settings themselves. */
import { formatDuration } from '@curfew/core'
import { envOf, flagOf, SETTINGS } from '../../settings.ts'
import { optionsOf, optionText, usageOf, type Command, type Table } from './command.ts'
import { EXIT_WORDS, type Exit } from './exit.ts'
import { secondWords } from './read.ts'

const WIDTH = 80

/** Breaks a text at spaces; `first` stands before its first line, `indent` before the others. */
function wrapped(text: string, first = '', indent = first): string[] {
  const lines: string[] = []
  let line = first
  let isEmpty = true
  for (const word of text.split(' ')) {
    if (!isEmpty && line.length + 1 + word.length > WIDTH) {
      lines.push(line)
      line = indent
      isEmpty = true
    }
    line += isEmpty ? word : ` ${word}`
    isEmpty = false
  }
  return [...lines, line]
}

/** Two columns; where the first is too wide, the second begins on a line of its own. */
function columns(rows: readonly (readonly [string, string])[], left: number): string[] {
  const indent = ' '.repeat(left + 4)
  return rows.flatMap(([name, text]) =>
    name.length > left ? [`  ${name}`, ...wrapped(text, indent)] : wrapped(text, `  ${name.padEnd(left)}  `, indent),
  )
}

export function overview(table: Table, version: string): string {
  const lines = [
    `curfew ${version}: a job and workflow server in which nothing runs past its deadline`,
    '',
    'Usage: curfew COMMAND [options]',
  ]
  for (const [title, words] of table.sections)
    lines.push(
      '',
      title,
      ...columns(
        words.map((word) => wordRow(table, word)),
        12,
      ),
    )
  lines.push(
    '',
    'curfew COMMAND --help explains a command and its options; curfew --version',
    'prints the version. Commands that call a server find it with --url (CURFEW_URL)',
    'and --token (CURFEW_TOKEN). NO_COLOR=1 leaves colour out.',
    '',
    ...exitLines([3, 4, 5, 6, 130]),
  )
  return lines.join('\n')
}

function wordRow(table: Table, word: string): readonly [string, string] {
  const command = table.commands.find(({ name }) => name === word)
  if (command !== undefined) return [word, command.summary]
  const group = table.groups.find(({ name }) => name === word)
  return [word, `${group?.summary ?? ''}: ${secondWords(table, word).join(', ')}`]
}

export function groupHelp(table: Table, name: string): string {
  const group = table.groups.find((one) => one.name === name)
  const commands = table.commands.filter((command) => command.name.startsWith(`${name} `))
  const rows = commands.map(
    ({ name: full, args, summary }) => [`${full}${args === undefined ? '' : ` ${args}`}`, summary] as const,
  )
  return [
    `Usage: curfew ${name} COMMAND [options]`,
    '',
    `${capital(group?.summary ?? '')}.`,
    '',
    ...columns(rows, 26),
    ...(group?.more === undefined ? [] : ['', ...group.more]),
    '',
    `curfew ${name} COMMAND --help explains one of them.`,
  ].join('\n')
}

export function commandHelp(command: Command): string {
  const options = optionsOf(command)
  const lines = [`Usage: ${usageOf(command)}`, '', ...wrapped(`${capital(command.summary)}.`)]
  if (command.more !== undefined) lines.push('', ...command.more)
  if (options.length > 0)
    lines.push(
      '',
      'Options',
      ...columns(
        options.map(([name, option]) => [optionText(name, option), option.help]),
        26,
      ),
    )
  if (command.settings === true) lines.push(...settingLines(command.name === 'serve'))
  lines.push('', ...exitLines(command.exits ?? []))
  return lines.join('\n')
}

const capital = (text: string): string => `${text.slice(0, 1).toUpperCase()}${text.slice(1)}`

function exitLines(more: readonly Exit[]): string[] {
  const codes = [0, 1, 2, ...more] as const
  return wrapped(`Exit codes: ${codes.map((code) => `${String(code)} ${EXIT_WORDS[code]}`).join('; ')}`, '', '  ')
}

// ---- Settings ----

const GROUPS = {
  server: 'Server',
  limits: 'Limits (defaults and caps)',
  workers: 'Workers',
  retention: 'Retention',
  expressions: 'Expressions in journeys',
} as const

const WORDS = { text: 'TEXT', whole: 'N', duration: 'LENGTH', flag: '', choice: '' } as const

function settingLines(isAll: boolean): string[] {
  if (!isAll)
    return [
      '',
      'It also takes the flags of curfew serve, such as --data DIR or --config FILE;',
      'see curfew serve --help.',
    ]
  const lines = [
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
  return lines
}
