/** `curfew doctor`: the row of the table. */
import type { Command } from './frame/command.ts'

export const DOCTOR: Command = {
  name: 'doctor',
  summary: 'look for wrong settings, impossible limits, clock offset, lack of space and damage, and say what helps',
  options: {
    url: { value: 'URL', help: 'also ask this server (CURFEW_URL) [http://127.0.0.1:8080, if one answers]' },
    json: { help: 'print JSON for programs' },
  },
  settings: true,
  exits: [6],
  run: async (call) => (await import('./doctor.ts')).runDoctor(call),
}
