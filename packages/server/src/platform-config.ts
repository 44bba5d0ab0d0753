/** Values that definitions see as `platform.config`: a file of keys, read at the start. */
import { readMapping } from './setting-file.ts'

export function readPlatformConfig(file: string | number | boolean | null): Readonly<Record<string, unknown>> {
  if (file === null || file === '') return {}
  return readMapping(String(file), 'the platform configuration', 'publicBaseUrl: https://shop.example')
}
