/** Scripts that complete commands and options in a shell. They are made from the table and ask no server. */
import { flagOf, SETTINGS } from '../../settings.ts'
import { optionsOf, type Command, type Table } from './command.ts'
import { firstWords, secondWords } from './read.ts'

export const SHELLS = ['bash', 'zsh', 'fish'] as const
export type Shell = (typeof SHELLS)[number]

export function completionFor(shell: Shell, table: Table): string {
  if (shell === 'bash') return bash(table)
  return shell === 'zsh' ? zsh(table) : fish(table)
}

function flagsOf(command: Command): string[] {
  const own = optionsOf(command).map(([name]) => `--${name}`)
  const settings = command.settings === true ? ['--config', ...SETTINGS.map(flagOf)] : []
  return [...own, ...settings, '--help']
}

/** `jobs list`: its flags; `jobs`: its words. In the syntax of `case`, which bash and zsh share. */
function cases(table: Table): string[] {
  const groups = table.groups.map(({ name }) => `    ${name}) words='${secondWords(table, name).join(' ')} --help' ;;`)
  const commands = table.commands.map((command) => `    '${command.name}') words='${flagsOf(command).join(' ')}' ;;`)
  return [...groups, ...commands]
}

/** `jobs list -o` may be followed by few words. */
function choiceCases(table: Table): string[] {
  const ofNames = table.commands.flatMap(({ name, choices }) =>
    choices === undefined ? [] : [`    '${name} ${name}') choices='${choices.join(' ')}' ;;`],
  )
  const ofOptions = table.commands.flatMap((command) =>
    optionsOf(command).flatMap(([name, { choices, short }]) => {
      if (choices === undefined) return []
      const flags = [`--${name}`, ...(short === undefined ? [] : [`-${short}`])]
      const cases = flags.map((flag) => `'${command.name} ${flag}'`).join('|')
      return [`    ${cases}) choices='${choices.join(' ')}' ;;`]
    }),
  )
  return [...ofNames, ...ofOptions]
}

function bash(table: Table): string {
  return [
    '# curfew completion bash: source it, or save it in /etc/bash_completion.d/curfew',
    '_curfew() {',
    '  local current="${COMP_WORDS[COMP_CWORD]}" previous="${COMP_WORDS[COMP_CWORD-1]}" command words choices isword',
    '  if [ "$COMP_CWORD" -eq 1 ]; then',
    `    COMPREPLY=($(compgen -W '${firstWords(table).join(' ')} help --help --version' -- "$current"))`,
    '    return',
    '  fi',
    '  command="${COMP_WORDS[1]}"',
    `  case " ${table.groups.map(({ name }) => name).join(' ')} " in`,
    '    *" $command "*)',
    '      if [ "$COMP_CWORD" -eq 2 ]; then isword=1; else command="$command ${COMP_WORDS[2]}"; fi ;;',
    '  esac',
    '  case "$command $previous" in',
    ...choiceCases(table),
    '  esac',
    '  if [ -n "$choices" ]; then',
    '    COMPREPLY=($(compgen -W "$choices" -- "$current"))',
    '    return',
    '  fi',
    '  case "$command" in',
    ...cases(table),
    '  esac',
    '  case "$isword$current" in',
    '    1*|-*) COMPREPLY=($(compgen -W "$words" -- "$current")) ;;',
    '    *) COMPREPLY=($(compgen -f -- "$current")) ;;',
    '  esac',
    '}',
    'complete -F _curfew curfew',
  ].join('\n')
}

function zsh(table: Table): string {
  return [
    '#compdef curfew',
    '# curfew completion zsh > "${fpath[1]}/_curfew"',
    '_curfew() {',
    '  local command words_of choices isword',
    '  if (( CURRENT == 2 )); then',
    `    compadd -- ${firstWords(table).join(' ')} help --help --version`,
    '    return',
    '  fi',
    '  command="${words[2]}"',
    `  case " ${table.groups.map(({ name }) => name).join(' ')} " in`,
    '    *" $command "*) if (( CURRENT == 3 )); then isword=1; else command="$command ${words[3]}"; fi ;;',
    '  esac',
    '  case "$command ${words[CURRENT-1]}" in',
    ...choiceCases(table),
    '  esac',
    '  if [[ -n "$choices" ]]; then compadd -- ${=choices}; return; fi',
    '  case "$command" in',
    ...cases(table).map((line) => line.replace(') words=', ') words_of=')),
    '  esac',
    '  if [[ -n "$isword" || "$PREFIX" == -* ]]; then compadd -- ${=words_of}; else _files; fi',
    '}',
    'if [ "$funcstack[1]" = "_curfew" ]; then _curfew "$@"; else compdef _curfew curfew; fi',
  ].join('\n')
}

function fish(table: Table): string {
  const quoted = (text: string): string => `'${text.replaceAll(/['\\]/g, String.raw`\$&`)}'`
  const lines = ['# curfew completion fish > ~/.config/fish/completions/curfew.fish']
  for (const word of firstWords(table)) {
    const summary =
      table.commands.find(({ name }) => name === word)?.summary ??
      table.groups.find(({ name }) => name === word)?.summary ??
      ''
    lines.push(`complete -c curfew -n __fish_use_subcommand -f -a ${word} -d ${quoted(summary)}`)
  }
  for (const command of table.commands) {
    const [first = '', second] = command.name.split(' ')
    if (second !== undefined) {
      const others = secondWords(table, first).join(' ')
      const when = `__fish_seen_subcommand_from ${first}; and not __fish_seen_subcommand_from ${others}`
      lines.push(`complete -c curfew -n ${quoted(when)} -f -a ${second} -d ${quoted(command.summary)}`)
    }
    const when = command.name
      .split(' ')
      .map((word) => `__fish_seen_subcommand_from ${word}`)
      .join('; and ')
    if (command.choices !== undefined)
      lines.push(`complete -c curfew -n ${quoted(when)} -f -a ${quoted(command.choices.join(' '))}`)
    for (const [name, option] of optionsOf(command)) {
      const takes =
        option.choices !== undefined ? ` -x -a ${quoted(option.choices.join(' '))}` : option.value ? ' -r' : ''
      const short = option.short === undefined ? '' : ` -s ${option.short}`
      lines.push(`complete -c curfew -n ${quoted(when)} -l ${name}${short}${takes} -d ${quoted(option.help)}`)
    }
  }
  const servers = table.commands.filter(({ settings }) => settings === true).map(({ name }) => name)
  const isServer = quoted(`__fish_seen_subcommand_from ${servers.join(' ')}`)
  for (const flag of ['--config', ...SETTINGS.map(flagOf)])
    lines.push(`complete -c curfew -n ${isServer} -l ${flag.slice(2)}`)
  return lines.join('\n')
}
