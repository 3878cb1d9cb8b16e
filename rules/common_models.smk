# Functions on encoders and fine-tuned families, shared by all stages: what each is made of, its options and its code.

ENCODER_FILES = [
    "config.json",
    "model.safetensors",
    "heads.safetensors",
    "pretrieve.json",
]
RETRIEVER_FILES = ["model.safetensors", "heads.safetensors", "pretrieve.json"]


def code_word(files):
    """The code of a training in one word: its checkpoints belong to that."""
    content = b"".join(pathlib.Path(file).read_bytes() for file in files)
    return hashlib.sha256(content).hexdigest()[:16]


def objective_name(encoder):
    """The objective that an encoder is trained with, as the list of objectives has it."""
    return encoder_options(config, encoder).objective["name"]


def store_of(encoder):
    """The token store that an encoder is pre-trained on."""
    return f"{paths.corpus_dir(ROOT, corpus_of(config, encoder))}/tokens"


def outside(encoder):
    """The start of an encoder that is hub:OWNER/NAME or dir:PATH, or None."""
    start = config["encoders"][encoder].get("start")
    return start if start is not None and from_outside(start) else None


def start_of(encoder, seed):
    """Files of what an encoder goes on from; none for a fresh one."""
    if outside(encoder):
        return hub.files_of(outside(encoder))
    start = started_from(config, encoder)
    if start is None:
        return []
    directory = paths.encoder_dir(ROOT, start, seed)
    return [f"{directory}/{name}" for name in ENCODER_FILES]


def start_argument(encoder, seed):
    """The option of pretrain.py that names the directory of an encoder's start; nothing for a fresh one."""
    own = started_from(config, encoder)
    if outside(encoder) is None and own is None:
        return ""
    directory = (
        hub.place_of(outside(encoder))
        if outside(encoder)
        else paths.encoder_dir(ROOT, own, seed)
    )
    return f"--start {shlex.quote(directory)}"


def encoder_of(wildcards):
    """Directory of the encoder of ``{family}``, an encoder and a recipe."""
    return paths.encoder_dir(ROOT, wildcards.family.split(".")[0], wildcards.seed)


def watched_sizes(task, wildcards):
    """The training-set sizes of ``{family}`` that a figure shows steps of."""
    return sorted(PLAN.watched_sizes.get((wildcards.family, task), ()))


def options_of(task, wildcards):
    """Options of the recipe of ``{family}`` on a task; ``curve`` only where a figure shows it."""
    options = recipe_options(config, wildcards.family.split(".")[1], task)
    if options.get("curve") and not watched_sizes(task, wildcards):
        options["curve"] = 0
    return options


def family_options(task, wildcards):
    """Options of the recipe of ``{family}`` on a task, as an argument."""
    return as_argument(options_of(task, wildcards))


def family_temperature(task, wildcards):
    """What scores are divided by in the loss of ``{family}`` on a task, and in contrastive entropy."""
    return options_of(task, wildcards).get("temperature", 1.0)


def finetuning_sources(task, wildcards):
    """The code that trains ``{family}`` on a task."""
    trainer = trainer_of(options_of(task, wildcards))
    return stage_sources("finetune.py", trainer=trainer)


def lengths_of(wildcards):
    """Tokens of a query and of a document of ``{family}``."""
    options = recipe_options(config, wildcards.family.split(".")[1], wildcards.dataset)
    return options["query_length"], options["passage_length"]


def made_of_files(task, sizes, wildcards):
    """What the retrievers of ``{family}`` are made of beside their encoder."""
    files = [
        file
        for size in sizes
        for file in PLAN.made_of_files(wildcards.family, task, size, wildcards.seed)
    ]
    return list(dict.fromkeys(files))


def made_of_argument(task, sizes, wildcards):
    """The same by training-set size, as finetune.py takes it."""
    made_of = {
        size: PLAN.made_of(wildcards.family, task, size, wildcards.seed)
        for size in sizes
    }
    return as_argument(made_of)
