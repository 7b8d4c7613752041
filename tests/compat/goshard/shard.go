package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
)

// shard keeps, for every Secret that it owns, a ConfigMap with the SHA-256 of each of its values.
//
// The queue hands out one Secret to one worker at a time (rule 5), and letting go of a Secret is
// such a piece of work like any other: nothing else is in flight on it then.
type shard struct {
	client       kubernetes.Interface
	name         string
	owner, drain string // the labels
	isHeld       func() bool

	informers informers.SharedInformerFactory
	secrets   corelisters.SecretLister
	queue     workqueue.TypedRateLimitingInterface[cache.ObjectName]
}

var errLeaseLost = errors.New("the Lease was not renewed in time")

func newShard(client kubernetes.Interface, ring, name string, isHeld func() bool) *shard {
	s := &shard{
		client: client,
		name:   name,
		owner:  "shard.alpha.sharding.timebertt.dev/" + ring,
		drain:  "drain.alpha.sharding.timebertt.dev/" + ring,
		isHeld: isHeld,
		queue: workqueue.NewTypedRateLimitingQueue(
			workqueue.DefaultTypedControllerRateLimiter[cache.ObjectName]()),
	}
	// Rule 3: only what bears this shard's name.
	mine := labels.SelectorFromSet(labels.Set{s.owner: name}).String()
	s.informers = informers.NewSharedInformerFactoryWithOptions(client, 0,
		informers.WithTweakListOptions(func(o *metav1.ListOptions) { o.LabelSelector = mine }))
	s.secrets = s.informers.Core().V1().Secrets().Lister()
	return s
}

// work follows the shard's objects and acts on them until w ends.  Each piece of work may take no
// longer than the timeout, so that a clean stop is over before the Lease is.
func (s *shard) work(w *work, workers int, timeout time.Duration) {
	defer close(w.ended)
	core := s.informers.Core().V1()
	// Rule 6: a Secret that went away has moved or is gone, and there is nothing to do in either case.
	follow(core.Secrets().Informer(), cache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { s.look(object.(metav1.Object)) },
		UpdateFunc: func(_, object any) { s.look(object.(metav1.Object)) },
	})
	follow(core.ConfigMaps().Informer(), cache.ResourceEventHandlerFuncs{
		UpdateFunc: func(_, object any) { s.lookAtOwner(object) },
		DeleteFunc: func(object any) { s.lookAtOwner(object) },
	})
	s.informers.Start(w.begin.Done())
	context.AfterFunc(w.begin, s.queue.ShutDown)

	var group sync.WaitGroup
	for range workers {
		group.Go(func() {
			for s.next(w, timeout) {
			}
		})
	}
	group.Wait()
}

func follow(informer cache.SharedIndexInformer, handler cache.ResourceEventHandler) {
	if _, err := informer.AddEventHandler(handler); err != nil {
		panic(err) // only an informer that was stopped before it was started refuses
	}
}

func (s *shard) look(object metav1.Object) {
	s.queue.Add(cache.MetaObjectToName(object))
}

func (s *shard) lookAtOwner(object any) {
	if last, ok := object.(cache.DeletedFinalStateUnknown); ok {
		object = last.Obj
	}
	child := object.(metav1.Object)
	if owner := metav1.GetControllerOf(child); owner != nil && owner.Kind == "Secret" {
		s.queue.Add(cache.NewObjectName(child.GetNamespace(), owner.Name))
	}
}

// next does one piece of work; false means that there shall be no other.
func (s *shard) next(w *work, timeout time.Duration) bool {
	key, down := s.queue.Get()
	if down {
		return false
	}
	defer s.queue.Done(key)
	if w.begin.Err() != nil {
		return false
	}
	ctx, cancel := context.WithTimeout(w.run, timeout)
	defer cancel()
	switch err := s.reconcile(ctx, key); {
	case err == nil, apierrors.IsConflict(err):
		// After a conflict the informer shows what is so now, and that is judged anew.
		s.queue.Forget(key)
	default:
		slog.Warn("reconcile failed", "object", key.String(), "error", err.Error())
		s.queue.AddRateLimited(key)
	}
	return true
}

// reconcile brings one Secret one step further.
func (s *shard) reconcile(ctx context.Context, key cache.ObjectName) error {
	secret, err := s.secrets.Secrets(key.Namespace).Get(key.Name)
	if err != nil {
		return ignoreNotFound(err)
	}
	// Rule 4.  The informer saw the labels; what it has not seen yet, a resourceVersion will tell.
	if secret.Labels[s.owner] != s.name {
		return nil
	}
	if _, draining := secret.Labels[s.drain]; draining {
		return s.letGo(ctx, secret)
	}
	if secret.DeletionTimestamp != nil {
		return nil // the garbage collector takes the ConfigMap along
	}
	return s.writeChecksums(ctx, secret)
}

// letGo acknowledges a drain (rule 7): both labels in one patch, and nothing but them.
func (s *shard) letGo(ctx context.Context, secret *corev1.Secret) error {
	body, err := patch(secret.ResourceVersion, map[string]any{
		"labels": map[string]any{s.owner: nil, s.drain: nil},
	}, nil)
	if err != nil {
		return err
	}
	if !s.isHeld() {
		return errLeaseLost
	}
	_, err = s.client.CoreV1().Secrets(secret.Namespace).
		Patch(ctx, secret.Name, types.MergePatchType, body, metav1.PatchOptions{})
	if err == nil {
		slog.Info("drain acknowledged", "object", secret.Namespace+"/"+secret.Name)
	}
	return ignoreNotFound(err)
}

// writeChecksums makes the ConfigMap say what the Secret holds.
func (s *shard) writeChecksums(ctx context.Context, secret *corev1.Secret) error {
	configMaps := s.client.CoreV1().ConfigMaps(secret.Namespace)
	wanted := s.checksums(secret)
	current, err := configMaps.Get(ctx, wanted.Name, metav1.GetOptions{})
	if !s.isHeld() {
		return errLeaseLost
	}
	if apierrors.IsNotFound(err) {
		_, err = configMaps.Create(ctx, wanted, metav1.CreateOptions{})
		return err
	}
	if err != nil {
		return err
	}
	if !metav1.IsControlledBy(current, secret) || current.Labels[s.owner] != s.name {
		return fmt.Errorf("ConfigMap %s is not this shard's", current.Name)
	}
	if maps.Equal(current.Data, wanted.Data) {
		return nil
	}
	data := map[string]any{}
	for key := range current.Data {
		data[key] = nil // a merge patch removes what is null
	}
	for key, value := range wanted.Data {
		data[key] = value
	}
	body, err := patch(current.ResourceVersion, nil, data)
	if err != nil {
		return err
	}
	_, err = configMaps.Patch(ctx, current.Name, types.MergePatchType, body, metav1.PatchOptions{})
	return err
}

// checksums returns the ConfigMap of a Secret (rule 8): with the shard's own owner label, so that it
// is where its creator is, and controlled by the Secret.
func (s *shard) checksums(secret *corev1.Secret) *corev1.ConfigMap {
	data := map[string]string{}
	for key, value := range secret.Data {
		sum := sha256.Sum256(value)
		data[key] = hex.EncodeToString(sum[:])
	}
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: secret.Namespace,
			Name:      secret.Name + "-checksums",
			Labels:    map[string]string{s.owner: s.name},
			OwnerReferences: []metav1.OwnerReference{
				*metav1.NewControllerRef(secret, corev1.SchemeGroupVersion.WithKind("Secret")),
			},
		},
		Data: data,
	}
}

// patch returns a merge patch that is refused unless the object is as it was at resourceVersion.
func patch(resourceVersion string, metadata, data map[string]any) ([]byte, error) {
	guarded := map[string]any{"resourceVersion": resourceVersion}
	maps.Copy(guarded, metadata)
	body := map[string]any{"metadata": guarded}
	if data != nil {
		body["data"] = data
	}
	return json.Marshal(body)
}

func ignoreNotFound(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
