// The peers, installed on demand beside this file, and the versions of what is compared.
import { spawnSync } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { redisVersion } from './redis.mjs'

const folder = fileURLToPath(new URL('.', import.meta.url))
const { dependencies } = JSON.parse(readFileSync(`${folder}package.json`, 'utf8'))

/** Installs what package.json names, unless it is there. Answers what is missing afterwards, by package, with the reason. */
export function installPeers() {
  const missing = () => Object.entries(dependencies).filter(([name, version]) => installedVersion(name) !== version)
  if (missing().length === 0) return {}
  console.error('Installing the peers into bench/compare/node_modules: about half a minute. This happens once.')
  const args = ['install', '--no-package-lock', '--no-audit', '--no-fund', '--no-progress', '--loglevel=error']
  const { stderr, error } = spawnSync('npm', args, {
    cwd: folder,
    encoding: 'utf8',
    shell: process.platform === 'win32',
  })
  const reason = (error?.message ?? stderr).trim().split('\n').slice(0, 3).join(' ') || 'npm installed another version'
  return Object.fromEntries(missing().map(([name]) => [name, `${name} could not be installed: ${reason}`]))
}

function installedVersion(name) {
  const file = `${folder}node_modules/${name}/package.json`
  return existsSync(file) ? JSON.parse(readFileSync(file, 'utf8')).version : null
}

/** Why a contender cannot run, or null. */
export function obstacle({ id, needs = [] }, missing) {
  const reason = needs.map((name) => missing[name]).find((found) => found !== undefined)
  if (reason !== undefined) return reason
  if (id.startsWith('bullmq') && redisVersion() === null)
    return 'there is no redis-server, and it could not be installed'
  return null
}

export const versions = () => ({ ...dependencies, redis: redisVersion() })
