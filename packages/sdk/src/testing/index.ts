export { openTestKit, TestKit, type TestKitOptions, type TimeoutKind } from './kit.ts'
export type { StepRef, StepView } from './steps.ts'
