// A handler in a module of its own: it is loaded where it runs, in a thread or in a process. No build step is needed.
import type { Context } from '@curfew/sdk'

let turns = 0

export function spinForever(_ctx: Context): never {
  for (;;) turns = (turns + 1) % 1_000_003
}
