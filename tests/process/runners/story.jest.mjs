/* global test */
import { story } from './story.mjs'

test('jest runs the kit', story)
