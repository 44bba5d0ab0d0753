/** The part of docs/command-line.md that is made from the table. */
import { optionsOf, optionText, usageOf, type Command, type Table } from './command.ts'
import { EXIT_WORDS } from './exit.ts'
import { firstWords } from './read.ts'

/** Markdown, as the formatter of the project leaves it. */
export function documentOf(table: Table): string {
  return firstWords(table)
    .flatMap((word) => {
      const group = table.groups.find(({ name }) => name === word)
      const commands = table.commands.filter(({ name }) => name.split(' ')[0] === word)
      return [
        `### curfew ${word}`,
        ...(group === undefined ? [] : [`${capital(group.summary)}.`]),
        ...commands.map(entryOf),
      ]
    })
    .join('\n\n')
}

const capital = (text: string): string => `${text.slice(0, 1).toUpperCase()}${text.slice(1)}`

function entryOf(command: Command): string {
  const options = optionsOf(command).map(([name, option]) => `${optionText(name, option).padEnd(28)} ${option.help}`)
  const exits = (command.exits ?? []).map((code) => `${String(code)} ${EXIT_WORDS[code]}`)
  const notes = exits.length === 0 ? '' : ` Exit codes besides 0, 1 and 2: ${exits.join(', ')}.`
  return [
    `${capital(command.summary)}.${notes}`,
    '',
    '```text',
    usageOf(command),
    ...options.map((line) => `  ${line}`),
    '```',
  ].join('\n')
}
