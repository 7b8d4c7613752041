package main

import "context"

// work is the span of a shard's work: it can be ended gently or at once, and waited for.
type work struct {
	begin context.Context // done: nothing new is begun
	run   context.Context // done: what is in flight is cut short
	ended chan struct{}   // closed: nothing is in flight

	stop    context.CancelFunc
	abandon context.CancelFunc // cuts the work short
}

func newWork() *work {
	w := &work{ended: make(chan struct{})}
	w.run, w.abandon = context.WithCancel(context.Background())
	w.begin, w.stop = context.WithCancel(w.run)
	return w
}

// finish begins nothing new and returns when everything in flight has ended.
func (w *work) finish() {
	w.stop()
	<-w.ended
}
