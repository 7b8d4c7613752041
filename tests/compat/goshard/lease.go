package main

import (
	"context"
	"sync/atomic"
	"time"

	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// workLock is a client-go lock that ties the work to the Lease more closely than client-go does.
//
// By itself client-go notices another holder only when the renew deadline has passed, and gives the
// Lease back without waiting for the work.  The sharder hands objects over as soon as a Lease is
// released or taken, so here the work ends first.
type workLock struct {
	resourcelock.Interface
	deadline time.Duration

	finish  func() // lets the work in flight end, begins nothing new, and waits for that
	abandon func() // cuts the work short

	renewed atomic.Pointer[time.Time] // when the last renewal that got through was sent
}

// isHeld tells whether the Lease is surely this shard's; asked before every write.
func (l *workLock) isHeld() bool {
	renewed := l.renewed.Load()
	return renewed != nil && time.Since(*renewed) < l.deadline
}

// Get is called by client-go when a renewal was refused: another client has written to the Lease.
func (l *workLock) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	record, raw, err := l.Interface.Get(ctx)
	// That client may only have changed a label.  If not, the shard has lost its Lease (rule 1),
	// and that it was released is no reason to take it again: its objects are given away.
	if err == nil && record.HolderIdentity != l.Identity() && l.renewed.Swap(nil) != nil {
		l.abandon()
	}
	return record, raw, err
}

func (l *workLock) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	sent := time.Now()
	err := l.Interface.Create(ctx, record)
	l.note(sent, err)
	return err
}

func (l *workLock) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	if record.HolderIdentity == "" { // a release; rule 9
		l.finish()
		l.renewed.Store(nil)
		return l.Interface.Update(ctx, record)
	}
	sent := time.Now()
	err := l.Interface.Update(ctx, record)
	l.note(sent, err)
	return err
}

func (l *workLock) note(sent time.Time, err error) {
	if err == nil {
		l.renewed.Store(&sent)
	}
}
