// In a file of its own, so that it runs beside the first half.
import { describeSeeds } from './seeds.ts'

describeSeeds(1, 2)
