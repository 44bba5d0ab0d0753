// A reporter of vitest: where the time of a run went, by project, and the files that took longest.
const MAX_FILES = 10

export default class TestTimes {
  onTestRunEnd(modules) {
    const files = modules.map((module) => {
      const { duration, collectDuration, environmentSetupDuration, prepareDuration, setupDuration } =
        module.diagnostic()
      const loadingMs = collectDuration + environmentSetupDuration + prepareDuration + setupDuration
      return {
        project: module.project.name,
        path: module.relativeModuleId,
        seconds: duration / 1_000,
        loading: loadingMs / 1_000,
      }
    })
    const projects = [...new Set(files.map(({ project }) => project))]
    console.log('\nSeconds by project, its files added up (several run at a time):')
    for (const project of projects) {
      const own = files.filter((file) => file.project === project)
      const sum = (field) => own.reduce((total, file) => total + file[field], 0).toFixed(0)
      console.log(`  ${project}: ${sum('seconds')} in tests, ${sum('loading')} in loading, ${own.length} files`)
    }
    console.log('The longest files:')
    for (const { path, seconds } of files.sort((a, b) => b.seconds - a.seconds).slice(0, MAX_FILES))
      console.log(`  ${seconds.toFixed(1).padStart(6)} s  ${path}`)
  }
}
