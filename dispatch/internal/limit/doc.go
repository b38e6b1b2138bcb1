// Package limit bounds what is asked of a downstream: how often, how much at
// once, and how much of that is learned from its answers. A limiter has buckets,
// one for each of the keys that it tells apart; a bucket that has been idle
// costs nothing.
//
// Nothing here waits. [Limiter.Admit] says whether a call may begin, and if not,
// when it is worth asking again.
package limit
