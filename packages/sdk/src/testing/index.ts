export { openTestKit, TestKit, type TestKitOptions, type TimeoutKind } from './kit.ts'
