/** Tells when code in a folder changes. Every folder below it is watched, but for packages and hidden ones, and at most so many. */
import { readdirSync, watch, type FSWatcher } from 'node:fs'
import { basename, dirname, join } from 'node:path'

const MAX_FOLDERS = 200
/** A save is often several writes; together they are one change. */
const QUIET_MS = 100
const CODE = /\.[cm]?[jt]sx?$/

export interface Watching {
  readonly folders: number
  /** Not every folder below is watched. */
  readonly isPart: boolean
  close(): void
}

/** `file`: counts whatever its name; other files only if they are code. */
export function watchCode(file: string, changed: (name: string) => void): Watching {
  const root = dirname(file)
  const watchers = new Map<string, FSWatcher>()
  let timer: NodeJS.Timeout | null = null
  let isPart = false

  const heard = (folder: string, name: string): void => {
    if (name !== basename(file) && !CODE.test(name)) {
      // It may be a new folder.
      if (!name.includes('.')) add(join(folder, name))
      return
    }
    if (timer !== null) clearTimeout(timer)
    timer = setTimeout(() => {
      changed(name)
    }, QUIET_MS)
  }

  function add(folder: string): void {
    if (watchers.has(folder)) return
    const below = foldersIn(folder)
    if (below === null) return
    if (watchers.size >= MAX_FOLDERS) {
      isPart = true
      return
    }
    const watcher = watch(folder, (_, name) => {
      if (name !== null) heard(folder, name)
    })
    // The folder is gone.
    watcher.on('error', () => {
      watcher.close()
      watchers.delete(folder)
    })
    watchers.set(folder, watcher)
    for (const name of below) add(join(folder, name))
  }

  add(root)
  return {
    folders: watchers.size,
    isPart,
    close() {
      if (timer !== null) clearTimeout(timer)
      for (const watcher of watchers.values()) watcher.close()
    },
  }
}

/** Null: it is no folder, or cannot be read. */
function foldersIn(folder: string): string[] | null {
  try {
    return readdirSync(folder, { withFileTypes: true })
      .filter((entry) => entry.isDirectory() && entry.name !== 'node_modules' && !entry.name.startsWith('.'))
      .map(({ name }) => name)
  } catch {
    return null
  }
}
