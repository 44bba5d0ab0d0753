/** What is made from the table of commands: help, completion, and the page of the documentation. */
import { execFileSync, spawnSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { describe, expect, test } from 'vitest'
import { TABLE } from '../packages/server/src/cli/commands.ts'
import { optionsOf } from '../packages/server/src/cli/frame/command.ts'
import { SHELLS } from '../packages/server/src/cli/frame/completion.ts'
import { documentOf } from '../packages/server/src/cli/frame/document.ts'
import { firstWords, secondWords } from '../packages/server/src/cli/frame/read.ts'
import { curfew } from './command-stage.ts'

const PAGE = fileURLToPath(new URL('../docs/command-line.md', import.meta.url))
const BEGIN = '<!-- commands: made from the table of commands -->'

describe('the table', () => {
  test('has every command once, and the overview names every first word', () => {
    const names = TABLE.commands.map(({ name }) => name)
    expect(new Set(names).size).toBe(names.length)
    const listed = TABLE.sections.flatMap(([, words]) => words)
    expect([...listed].sort()).toEqual([...firstWords(TABLE)].sort())
    for (const { name } of TABLE.groups) expect(secondWords(TABLE, name)).not.toEqual([])
  })

  test('has no short option that means two things in one command', () => {
    for (const command of TABLE.commands) {
      const shorts = optionsOf(command).flatMap(([, { short }]) => (short === undefined ? [] : [short]))
      expect(new Set(shorts).size, command.name).toBe(shorts.length)
    }
  })
})

describe('help', () => {
  test('of every command names its usage, its options and its exit codes', async () => {
    for (const command of TABLE.commands) {
      const { code, out } = await curfew([...command.name.split(' '), '--help'])
      expect(code).toBe(0)
      expect(out).toContain(`Usage: curfew ${command.name}`)
      expect(out).toContain('Exit codes: 0 done; 1 refused')
      for (const [name] of optionsOf(command)) expect(out).toContain(`--${name}`)
    }
  })

  test('is as it was when it was last looked at', async () => {
    const texts: string[] = [(await curfew('--help')).out.replace(/curfew \d\S*:/, 'curfew VERSION:')]
    for (const { name } of TABLE.groups) texts.push((await curfew(`${name} --help`)).out)
    for (const { name } of TABLE.commands.filter(({ name }) => name !== 'serve'))
      texts.push((await curfew(`help ${name}`)).out)
    await expect(texts.join(`${'-'.repeat(80)}\n`)).toMatchFileSnapshot('command-help.txt')
  })

  test('of the overview and of lists fits in 80 columns', async () => {
    for (const line of [
      '--help',
      'jobs --help',
      'jobs list --help',
      'queues set --help',
      'journey start --help',
      'dev --help',
      'what-if --help',
    ])
      for (const shown of (await curfew(line)).out.split('\n')) expect(shown.length, shown).toBeLessThanOrEqual(80)
  })
})

describe('completion', () => {
  /** What bash offers after these words, by the script itself. */
  function offered(script: string, line: string): string[] {
    const words = line.split(' ')
    const ask = [
      script,
      `COMP_WORDS=(${words.map((word) => `'${word}'`).join(' ')})`,
      `COMP_CWORD=${String(words.length - 1)}`,
      '_curfew',
      'printf "%s\\n" "${COMPREPLY[@]}"',
    ].join('\n')
    return execFileSync('bash', ['-c', ask], { encoding: 'utf8', cwd: '/' }).trim().split('\n')
  }

  test('of bash offers commands, words of a group, options and choices', async () => {
    const script = (await curfew('completion bash')).out
    expect(offered(script, 'curfew se')).toEqual(['serve'])
    expect(offered(script, 'curfew jobs re')).toEqual(['retry'])
    expect(offered(script, 'curfew jobs list --li')).toEqual(['--limit'])
    expect(offered(script, 'curfew jobs list -o i')).toEqual(['ids'])
    expect(offered(script, 'curfew incident -o m')).toEqual(['markdown'])
    expect(offered(script, 'curfew explain --ur')).toEqual(['--url'])
    expect(offered(script, 'curfew serve --log-l')).toEqual(['--log-level'])
    expect(offered(script, 'curfew export et')).toEqual(['etc'])
    expect(offered(script, 'curfew completion ')).toEqual(['bash', 'zsh', 'fish'])
  })

  const hasFish = spawnSync('fish', ['--version']).status === 0

  test.runIf(hasFish)('of fish offers commands, words of a group, options, settings and choices', async () => {
    const { out } = await curfew('completion fish')
    const file = join(mkdtempSync(join(tmpdir(), 'curfew-fish-')), 'curfew.fish')
    writeFileSync(file, out)
    const offers = (line: string): string[] =>
      execFileSync('fish', ['--no-config', '-c', `source ${file}; complete -C '${line}'`], {
        encoding: 'utf8',
        cwd: '/',
      })
        .trim()
        .split('\n')
        .map((one) => one.split('\t')[0] ?? '')
    expect(offers('curfew se')).toEqual(['serve'])
    expect(offers('curfew jobs re')).toEqual(['retry'])
    expect(offers('curfew jobs list --li')).toEqual(['--limit'])
    expect(offers('curfew serve --log-l')).toEqual(['--log-level'])
    expect(offers('curfew completion ')).toEqual(expect.arrayContaining(['bash', 'zsh', 'fish']))
    expect(offers('curfew completion ')).not.toContain('etc/')
    rmSync(dirname(file), { recursive: true })
  })

  test('of zsh offers files neither among the words of a group nor among options', async () => {
    const { out } = await curfew('completion zsh')
    expect(out).toContain(`if [[ -n "$isword" || "$PREFIX" == -* ]]; then compadd -- \${=words_of}; else _files; fi`)
    expect(out).toContain(`'completion completion') choices='bash zsh fish' ;;`)
  })

  test.each(SHELLS)('of %s knows every command', async (shell) => {
    const { out } = await curfew(`completion ${shell}`)
    for (const { name } of TABLE.commands) for (const word of name.split(' ')) expect(out).toContain(word)
  })
})

test('docs/command-line.md has every command as the table has it', async () => {
  const page = readFileSync(PAGE, 'utf8')
  const [before = ''] = page.split(BEGIN)
  expect(before.length).toBeLessThan(page.length)
  await expect(`${before}${BEGIN}\n\n${documentOf(TABLE)}\n`).toMatchFileSnapshot(PAGE)
})
