// Package cron sends messages at times. Schedules are data in the state of a store, and one elected process of all
// that share the store appends a message for each tick.
//
// # Once a tick
//
// A tick's message has a unique key of schedule and nominal time, so that whoever fires it, and however often, there
// is one. What is due follows from the last tick that was dealt with, which is in the store, never from a start. When
// the process that fires ends, another takes over within a second; when it dies, within eight. A tick that fires no
// more than ten seconds late, while some process ran, is late; all others are missed, and [Schedule.Missed] says which
// of them are made up.
//
// # Expressions
//
// A cron expression has five fields (minute, hour, day of the month, month, day of the week), or six with seconds
// first, or is one of @yearly, @annually, @monthly, @weekly, @daily, @midnight and @hourly. A field is a list of
// values, ranges and steps. Ranges wrap (FRI-MON), months and days of the week have names, and 7 is Sunday. Days
// of the month know L (the last day), L-3, 15W (the working day nearest to the 15th) and LW; days of the week know
// 5L (the last Friday) and 5#3 (the third one). Where day and weekday are both restricted, either is enough; where
// one of them begins with *, both must match.
//
// # Zones
//
// The fields are matched with the wall clock of the zone. When it jumps, one of two rules applies:
//
//   - With a * or / in minute or hour, an expression goes by elapsed time: it fires at every instant whose wall
//     clock matches. Nothing is made up for a gap, and a repeated hour fires again.
//   - All others are fixed times. A fixed time fires at the first instant at which the wall clock has reached it,
//     and never again: inside a gap that is the first instant after the gap, in a repeated hour the first of the
//     two. Fixed times that fall on one instant fire once.
//
// The nominal time of a tick is the instant at which it fires.
package cron
