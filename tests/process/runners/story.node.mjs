import { test } from 'node:test'
import { story } from './story.mjs'

test('node:test runs the kit', story)
