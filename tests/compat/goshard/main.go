// Command goshard is a shard that is built on client-go's leader election and nothing else.
//
// It does the work of examples/checksum-controller, under the same names, so that shards in Go and
// in Python can share a ring.  It is written from docs/protocol.md, "What a shard must do"; the
// numbers in the comments are those of its rules.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

const ringLabel = "alpha.sharding.timebertt.dev/controllerring"

// settings say who this replica is; flags win over the environment.
type settings struct {
	kubeconfig, ring, name, namespace string
	duration, deadline, retry         time.Duration
	workers                           int
}

func main() {
	slog.SetDefault(slog.New(slog.NewJSONHandler(os.Stderr, nil)))
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	if err := run(ctx); err != nil {
		slog.Error("shard failed", "error", err.Error())
		os.Exit(1)
	}
}

// run works until ctx is done and then gives the Lease back; a lost Lease is an error.
func run(ctx context.Context) error {
	s, err := readSettings()
	if err != nil {
		return err
	}
	config, err := connect(s.kubeconfig)
	if err != nil {
		return err
	}
	// Renewals have connections and a deadline of their own, so that no work is in their way.
	forLease := rest.CopyConfig(config)
	forLease.Timeout = s.deadline / 2
	leases, err := kubernetes.NewForConfig(forLease)
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}

	electing, giveUp := context.WithCancel(ctx)
	defer giveUp()
	work := newWork()
	lock := newLock(s, leases, work, giveUp)
	shard := newShard(client, s.ring, s.name, lock.isHeld)
	// Not under the elector's context: when and how the work ends is the lock's to say.
	begin := func(context.Context) { shard.work(work, s.workers, s.deadline/2) }
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock:            lock,
		LeaseDuration:   s.duration,
		RenewDeadline:   s.deadline,
		RetryPeriod:     s.retry,
		ReleaseOnCancel: true, // rule 9
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: begin,
			OnStoppedLeading: work.abandon,
		},
	})
	if err != nil {
		return err
	}
	elector.Run(electing)
	if ctx.Err() == nil {
		return errors.New("another client holds the Lease, or may hold it")
	}
	return nil
}

func newLock(s settings, leases kubernetes.Interface, work *work, giveUp func()) *workLock {
	return &workLock{
		// Rule 1: name and holder are the same.  client-go writes the labels with every update, so
		// a Lease that has lost the ring's label gets it back with the next renewal (rule 2).
		Interface: &resourcelock.LeaseLock{
			LeaseMeta:  metav1.ObjectMeta{Namespace: s.namespace, Name: s.name},
			Client:     leases.CoordinationV1(),
			LockConfig: resourcelock.ResourceLockConfig{Identity: s.name},
			Labels:     map[string]string{ringLabel: s.ring},
		},
		deadline: s.deadline,
		finish:   work.finish,
		abandon:  func() { work.abandon(); giveUp() },
	}
}

func connect(kubeconfig string) (*rest.Config, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = kubeconfig
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, nil).ClientConfig()
	if err != nil {
		return nil, err
	}
	config.QPS = -1 // the API server's own fairness is enough
	return config, nil
}

func readSettings() (settings, error) {
	var s settings
	flag.StringVar(&s.kubeconfig, "kubeconfig", "", "path; default: KUBECONFIG, else the pod's account")
	flag.StringVar(&s.ring, "ring", "checksum", "the ControllerRing")
	flag.StringVar(&s.name, "name", variable("SHARD_NAME", "POD_NAME"), "of the shard and its Lease")
	flag.StringVar(&s.namespace, "namespace", variable("SHARD_NAMESPACE", "POD_NAMESPACE"), "of the Lease")
	flag.Parse()
	if s.name == "" || s.namespace == "" {
		return s, errors.New("set SHARD_NAME and SHARD_NAMESPACE, or POD_NAME and POD_NAMESPACE")
	}
	var problems [4]error
	s.duration, problems[0] = seconds("SHARD_LEASE_DURATION", "15")
	s.deadline, problems[1] = seconds("SHARD_RENEW_DEADLINE", "10")
	s.retry, problems[2] = seconds("SHARD_RETRY_PERIOD", "2")
	s.workers, problems[3] = strconv.Atoi(cmp.Or(os.Getenv("SHARD_WORKERS"), "10"))
	return s, errors.Join(problems[:]...)
}

// variable returns the first of the variables that is not empty.
func variable(names ...string) string {
	for _, name := range names {
		if value := os.Getenv(name); value != "" {
			return value
		}
	}
	return ""
}

func seconds(name, otherwise string) (time.Duration, error) {
	number, err := strconv.ParseFloat(cmp.Or(os.Getenv(name), otherwise), 64)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", name, err)
	}
	return time.Duration(number * float64(time.Second)), nil
}
